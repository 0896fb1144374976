"""A dense reference for attention backends, in float64. Needs torch.

Not imported by ``batchwright.testing`` itself, so that it needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from attrs import frozen

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import (
    AttentionBackend,
    AttentionBatch,
    AttentionSpec,
    LayerCall,
)

TOLERANCE: Final = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}
"""Largest difference to the reference, by what is computed in."""


@frozen
class Shape:
    """One request in a step.

    Args:
        computed: Tokens before the step.
        granted: Scheduled tokens in it.
    """

    computed: int
    granted: int


@frozen(kw_only=True)
class Case:
    """A model's attention and the requests of one step.

    Args:
        requests: The computed requests.
        num_kv_heads: Key and value heads.
        group_size: Query heads that share one of them.
        head_size: Elements a head.
        block_size: Tokens a block.
        windows: By layer, tokens that a query sees; None: all.
        dtype: Type of the computation.
        softcap: Cap of the scores, or None.
        sinks: True if there are attention sinks.
        seed: Of all random numbers.
        device: ``cpu`` or ``cuda``.
    """

    requests: Sequence[Shape]
    num_kv_heads: int = 2
    group_size: int = 1
    head_size: int = 8
    block_size: int = 4
    windows: tuple[int | None, ...] = (None,)
    dtype: str = "float32"
    softcap: float | None = None
    sinks: bool = False
    seed: int = 0
    device: str = "cpu"

    @property
    def spec(self) -> AttentionSpec:
        """Requirements of the model of this case."""
        return AttentionSpec(
            num_layers=len(self.windows),
            num_query_heads=self.num_kv_heads * self.group_size,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            dtype=self.dtype,
            device=self.device,
            block_size=self.block_size,
            sliding_windows=self.windows,
            softcap=self.softcap is not None,
            sinks=self.sinks,
        )


def make_batch(
    tables: list[list[int]], shapes: Sequence[Shape], block_size: int, device: str = "cpu"
) -> AttentionBatch:
    """Make the batch of a step.

    Args:
        tables: Block table of each request.
        shapes: The requests that are computed.
        block_size: Tokens a block.
        device: Device of its tensors.
    """
    width = max(len(table) for table in tables)
    lens = [shape.granted for shape in shapes]
    slots = [
        table[position // block_size] * block_size + position % block_size
        for table, shape in zip(tables, shapes, strict=True)
        for position in range(shape.computed, shape.computed + shape.granted)
    ]
    starts = [0, *torch.tensor(lens).cumsum(0).tolist()]
    rows = [table + [0] * (width - len(table)) for table in tables]
    return AttentionBatch(
        query_start_loc=torch.tensor(starts, device=device).int(),
        query_lens=lens,
        seq_lens=[shape.computed + shape.granted for shape in shapes],
        block_tables=torch.tensor(rows, device=device).int(),
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
    """One request's last queries over all of its keys, one token at a time.

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
    query = query.double()
    key, value = (t.double().repeat_interleave(group, 1).transpose(0, 1) for t in (key, value))
    output = torch.empty_like(query)
    for i in range(len(query)):
        end = key.shape[1] - len(query) + i + 1
        begin = 0 if window is None else max(0, end - window)
        scores = (key[:, begin:end] @ query[i].unsqueeze(2)).squeeze(2) * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if sinks is not None:
            scores = torch.cat((scores, sinks.double().unsqueeze(1)), 1)
        weights = scores.softmax(1)[:, : end - begin]
        output[i] = (weights.unsqueeze(1) @ value[:, begin:end]).squeeze(1)
    return output


def check_attention(case: Case, allocate: Callable[[int], AttentionBackend]) -> None:
    """Compute requests' histories as steps of their own, then the step in question.

    Args:
        case: The work to compute.
        allocate: Makes a backend for ``case.spec`` with a cache of so many blocks;
            what lies in them must not matter.

    Raises:
        AssertionError: An output differs from the reference.
    """
    _Check(case, allocate).run()


def check_copies(case: Case, backend: AttentionBackend) -> None:
    """Check that a copied block answers what the original does.

    Args:
        case: Two requests that decode behind one full block.
        backend: With a cache of 6 blocks.

    Raises:
        AssertionError: It does not.
    """
    random = torch.Generator().manual_seed(case.seed)
    dtype = getattr(torch, case.dtype)
    shape = (case.block_size, case.num_kv_heads, case.head_size)
    old = torch.randn(shape, generator=random).to(case.device, dtype)
    layers = range(len(case.windows))
    whole = [Shape(0, case.block_size)]
    backend.begin_step(make_batch([[1]], whole, case.block_size, case.device))
    for layer in layers:
        backend.forward(LayerCall(layer, old, old, old, scale=1.0))
    backend.copy_blocks([BlockCopy(1, 2)])
    backend.copy_blocks([])
    backend.begin_step(make_batch([[2, 4], [1, 5]], case.requests, case.block_size, case.device))
    new = torch.ones(2, *shape[1:], device=case.device, dtype=dtype)
    for layer in layers:
        copied, original = backend.forward(LayerCall(layer, new, new, new, scale=1.0))
        assert torch.equal(copied, original), f"layer {layer}: the copy differs"
        assert torch.isfinite(copied).all(), f"layer {layer}: the copy is not finite"


def fill_with_nan(backend: AttentionBackend, case: Case, num_blocks: int) -> None:
    """Write NaN into every block that requests may hold.

    Args:
        backend: With a cache of ``num_blocks`` blocks for ``case.spec``.
        case: The case that it was allocated for.
        num_blocks: Its blocks, the null block included.
    """
    table = list(range(1, num_blocks))
    num_tokens = len(table) * case.block_size
    whole = [Shape(0, num_tokens)]
    backend.begin_step(make_batch([table], whole, case.block_size, case.device))
    spec = case.spec
    options: dict[str, Any] = {"dtype": getattr(torch, spec.dtype), "device": case.device}
    nothing = torch.full((num_tokens, spec.num_kv_heads, spec.head_size), math.nan, **options)
    query = torch.zeros(num_tokens, spec.num_query_heads, spec.head_size, **options)
    for layer in range(spec.num_layers):
        backend.forward(LayerCall(layer, query, nothing, nothing, scale=1.0))


class _Check:
    def __init__(self, case: Case, allocate: Callable[[int], AttentionBackend]) -> None:
        self.case = case
        self.random = torch.Generator().manual_seed(case.seed)
        self.lengths = [s.computed + s.granted for s in case.requests]
        needs = [-(-length // case.block_size) for length in self.lengths]
        order = (torch.randperm(sum(needs), generator=self.random) + 1).tolist()
        self.tables = [[order.pop() for _ in range(need)] for need in needs]
        self.backend = allocate(sum(needs) + 1)
        self.num_heads = case.num_kv_heads * case.group_size
        self.layers = range(len(case.windows))
        heads = case.num_kv_heads
        self.keys = [[self._draw(n, heads) for n in self.lengths] for _ in self.layers]
        self.values = [[self._draw(n, heads) for n in self.lengths] for _ in self.layers]
        sinks = self._draw(self.num_heads, 1)[:, 0, 0] if case.sinks else None
        self.extra: dict[str, Any] = {
            "scale": case.head_size**-0.5,
            "softcap": case.softcap,
            "sinks": sinks,
        }

    def run(self) -> None:
        for index, shape in enumerate(self.case.requests):
            if shape.computed:
                self._step([index], [Shape(0, shape.computed)])
        all_of_them = list(range(len(self.case.requests)))
        queries, outputs = self._step(all_of_them, self.case.requests)
        for layer in self.layers:
            start = 0
            for index, shape in enumerate(self.case.requests):
                rows = slice(start, start + shape.granted)
                start += shape.granted
                self._compare(layer, index, queries[layer][rows], outputs[layer][rows])

    def _step(
        self, indices: list[int], shapes: Sequence[Shape]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Compute one step; by layer, its queries and what the backend answered."""
        case = self.case
        tables = [self.tables[index] for index in indices]
        self.backend.begin_step(make_batch(tables, shapes, case.block_size, case.device))
        new = [slice(shape.computed, shape.computed + shape.granted) for shape in shapes]
        queries, outputs = [], []
        for layer in self.layers:
            query = self._draw(sum(shape.granted for shape in shapes), self.num_heads)
            pairs = list(zip(indices, new, strict=True))
            key = torch.cat([self.keys[layer][index][part] for index, part in pairs])
            value = torch.cat([self.values[layer][index][part] for index, part in pairs])
            queries.append(query)
            call = LayerCall(layer, query, key, value, **self.extra)
            outputs.append(self.backend.forward(call))
        return queries, outputs

    def _compare(self, layer: int, index: int, query: torch.Tensor, actual: torch.Tensor) -> None:
        case = self.case
        expected = dense_attention(
            query,
            self.keys[layer][index],
            self.values[layer][index],
            window=case.windows[layer],
            **self.extra,
        )
        assert actual.dtype == query.dtype
        error = (expected - actual.double()).abs().max().item()
        assert error <= TOLERANCE[case.dtype], f"layer {layer}, request {index}: off by {error}"

    def _draw(self, tokens: int, num_heads: int) -> torch.Tensor:
        shape = (tokens, num_heads, self.case.head_size)
        drawn = torch.randn(shape, generator=self.random)
        return drawn.to(getattr(torch, self.case.dtype)).to(self.case.device)
