"""Attention in plain torch: the kernels of Batchwright, their inputs, a dense reference.

Needs torch alone, so that ``gpu_check.py`` can run where Batchwright's dependencies are not
installed. ``Spec``, ``Batch``, ``Call`` and ``Copy`` have the fields of the classes of
Batchwright that kernels read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import torch

PACKAGE = "plain_attention"
TOLERANCE = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}
"""Largest difference to the reference, by what is computed in."""


@dataclass(frozen=True)
class Spec:
    """Attention of a model; see ``AttentionSpec``."""

    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    dtype: str
    device: str
    block_size: int
    sliding_windows: tuple[int | None, ...]
    softcap: bool = False
    sinks: bool = False


@dataclass(frozen=True)
class Batch:
    """Requests of one step; see ``AttentionBatch``."""

    query_start_loc: torch.Tensor
    query_lens: Sequence[int]
    seq_lens: Sequence[int]
    block_tables: torch.Tensor
    slot_mapping: torch.Tensor


@dataclass(frozen=True)
class Call:
    """Attention of one layer in one step; see ``LayerCall``."""

    layer: int
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scale: float
    softcap: float | None = None
    sinks: torch.Tensor | None = None


@dataclass(frozen=True)
class Copy:
    """A block to be copied; see ``BlockCopy``."""

    source: int
    destination: int


def kernels(module: str) -> ModuleType:
    """Import a module of the attention package without the package's ``__init__``.

    That one registers components, and needs what a scheduler needs.
    """
    if PACKAGE not in sys.modules:
        (path,) = Path(__file__).parents[2].glob("plugins/*/attention/triton_kernels.py")
        spec = ModuleSpec(PACKAGE, None, is_package=True)
        spec.submodule_search_locations = [str(path.parent)]
        sys.modules[PACKAGE] = module_from_spec(spec)
    return import_module(f"{PACKAGE}.{module}")


def make_batch(
    tables: Sequence[Sequence[int]], shapes: Sequence[tuple[int, int]], block_size: int, device: str
) -> Batch:
    """Make the batch of a step.

    Args:
        tables: Block table of each request.
        shapes: Tokens of each request before the step, and in it.
        block_size: Tokens a block.
        device: ``cpu`` or ``cuda``.
    """
    width = max(len(table) for table in tables)
    starts, slots = [0], []
    for table, (computed, new) in zip(tables, shapes, strict=True):
        starts.append(starts[-1] + new)
        for position in range(computed, computed + new):
            block, offset = divmod(position, block_size)
            slots.append(table[block] * block_size + offset)
    rows = [[*table, *[0] * (width - len(table))] for table in tables]
    return Batch(
        query_start_loc=torch.tensor(starts, dtype=torch.int32, device=device),
        query_lens=[new for _, new in shapes],
        seq_lens=[computed + new for computed, new in shapes],
        block_tables=torch.tensor(rows, dtype=torch.int32, device=device),
        slot_mapping=torch.tensor(slots, device=device),
    )


def dense_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    window: int | None = None,
    scale: float = 1.0,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend with the last queries of a request to all of its keys, in float64.

    Args:
        query: ``[num_queries, num_query_heads, head_size]``, the last positions.
        key: ``[num_tokens, num_kv_heads, head_size]``.
        value: ``[num_tokens, num_kv_heads, head_size]``.
        window: Tokens that a query sees, itself included; None: all.
        scale: Factor on the scores.
        softcap: Scores become ``softcap * tanh(score / softcap)``.
        sinks: ``[num_query_heads]`` extra logit a head.

    Returns:
        ``[num_queries, num_query_heads, head_size]`` float64.
    """
    group = query.shape[1] // key.shape[1]
    queries = query.double().transpose(0, 1)
    keys, values = (t.double().repeat_interleave(group, 1).transpose(0, 1) for t in (key, value))
    scores = queries @ keys.transpose(1, 2) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    position = torch.arange(len(key), device=key.device)
    last = position[-len(query) :, None]
    seen = position <= last
    if window is not None:
        seen &= position > last - window
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        extra = sinks.double()[:, None, None].expand(-1, len(query), 1)
        scores = torch.cat((scores, extra), 2)
    weights = scores.softmax(2)[:, :, : len(key)]
    return (weights @ values).transpose(0, 1)
