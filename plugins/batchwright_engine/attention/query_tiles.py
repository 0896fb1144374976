"""The tiles of the queries of a step, and the parts of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec

__all__ = ["QueryTiles", "TileShape"]

_DECODE_ROWS = 16  # the least that a matrix product on tensor cores has
_PREFILL_ROWS = 64
_MOST_SPLITS = 64
_LEAST_KEYS_A_SPLIT = 256
_PROGRAMS_A_PROCESSOR = 2


@dataclass(frozen=True, slots=True)
class TileShape:
    """The size of a tile, and the launch options of its program.

    Args:
        rows: Queries times the heads that share a key head; a power of two.
        columns: Keys that are looked at together; a power of two.
        queries: Whole queries that fit.
        num_warps: Warps a program.
        num_stages: Loads in flight.
    """

    rows: int
    columns: int
    queries: int
    num_warps: int
    num_stages: int

    @classmethod
    def choose(cls, spec: AttentionSpec, most_queries: int) -> TileShape:
        """The shape for a step in which no request has more queries than this.

        Decodes are bound by memory: their tile is as small as can be. With these numbers
        next to nothing spills to memory in half precision (ptxas for sm_80 and sm_90);
        they have not been tuned on a GPU.
        """
        group = spec.num_query_heads // spec.num_kv_heads
        half = 2 if spec.dtype == "float32" else 1  # its products take no tensor cores
        narrow = most_queries * group <= _DECODE_ROWS
        rows = max(_DECODE_ROWS if narrow else _PREFILL_ROWS // half, power_of_two(group))
        return cls(
            rows=rows,
            columns=(64 if spec.head_size <= 128 else 32) // half,
            queries=rows // group,
            num_warps=4 if rows <= _PREFILL_ROWS else 8,
            num_stages=2,
        )


@dataclass(frozen=True, eq=False, slots=True)
class QueryTiles:
    """One step, ready for every layer.

    Args:
        shape: Of every tile.
        num_tokens: Queries of the step.
        requests: ``[num_tiles]`` int32, whose queries a tile holds.
        offsets: ``[num_tiles]`` int32, its first query, counted in its request.
        seq_lens: ``[num_reqs]`` int32.
        longest: Tokens of the longest request.
    """

    shape: TileShape
    num_tokens: int
    requests: torch.Tensor
    offsets: torch.Tensor
    seq_lens: torch.Tensor
    longest: int

    @classmethod
    def cut(cls, batch: AttentionBatch, spec: AttentionSpec) -> QueryTiles:
        """Cut a step's queries into tiles, and send what describes them in one copy."""
        shape = TileShape.choose(spec, max(batch.query_lens))
        lens = torch.tensor(list(batch.query_lens), dtype=torch.int32)
        counts = (lens + shape.queries - 1) // shape.queries
        num_tiles = int(counts.sum())
        requests = torch.repeat_interleave(torch.arange(len(lens), dtype=torch.int32), counts)
        before = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        offsets = (torch.arange(num_tiles) - before) * shape.queries
        seq_lens = torch.tensor(list(batch.seq_lens), dtype=torch.int32)
        sent = to_device((requests, offsets.int(), seq_lens), batch.block_tables.device)
        return cls(
            shape=shape,
            num_tokens=int(lens.sum()),
            requests=sent[:num_tiles],
            offsets=sent[num_tiles : 2 * num_tiles],
            seq_lens=sent[2 * num_tiles :],
            longest=max(batch.seq_lens),
        )

    def num_splits(self, window: int | None, num_kv_heads: int, processors: int) -> int:
        """Parts that each tile's keys are computed in, so that no processor idles.

        Args:
            window: Of the layer.
            num_kv_heads: Key heads: tiles are computed for each.
            processors: Of the GPU.
        """
        keys = self.longest if window is None else min(self.longest, window)
        programs = len(self.requests) * num_kv_heads
        wanted = -(-processors * _PROGRAMS_A_PROCESSOR // programs)
        return max(1, min(wanted, -(-keys // _LEAST_KEYS_A_SPLIT), _MOST_SPLITS))


def power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, number - 1).bit_length()


def to_device(parts: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Send tensors of one type, one behind the other, without waiting for it."""
    joined = torch.cat(list(parts))
    if device.type == "cuda":
        joined = joined.pin_memory()
    return joined.to(device, non_blocking=True)
