"""What the layers of one step share: who is computed together, what is gathered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from attrs import frozen

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBatch

    from .paged_cache import PagedCache

__all__ = ["DecodeGroup", "PrefillSpan", "StepLayout"]

_LEAST_FILL = 0.75  # a shorter request in a group pads at most a quarter of its share


@frozen(eq=False)
class DecodeGroup:
    """Requests with one token each, computed by one call.

    Args:
        tokens: ``[num_reqs]`` int64, their tokens' places in the batch.
        rows: ``[num_reqs * num_kv_heads * num_blocks]`` int64, cache rows to gather.
        blanks: Gathered tokens that nobody sees.
        mask: ``[num_reqs, 1, 1, num_blocks * block_size]`` bool, what the query sees.
    """

    tokens: torch.Tensor
    rows: torch.Tensor
    blanks: torch.Tensor
    mask: torch.Tensor


@frozen(eq=False)
class PrefillSpan:
    """One request with several tokens.

    Args:
        start: Its first token's place in the batch.
        stop: Behind its last one.
        rows: ``[num_kv_heads * num_blocks]`` int64, cache rows to gather; None if the
            step's own keys and values are all there is to see.
        blanks: Gathered tokens that nobody sees.
        mask: ``[stop - start, num_blocks * block_size]`` bool; None without rows.
    """

    start: int
    stop: int
    rows: torch.Tensor | None = None
    blanks: torch.Tensor | None = None
    mask: torch.Tensor | None = None


class StepLayout:
    """The groups and spans of one step for the layers with one window.

    Args:
        batch: The step's batch.
        cache: Whose blocks are gathered.
        window: Tokens that a query sees, itself included; None: all before it.
        chunk_tokens: Most tokens that a group gathers (one request may exceed it).
    """

    def __init__(
        self, batch: AttentionBatch, cache: PagedCache, window: int | None, chunk_tokens: int
    ) -> None:
        self._batch = batch
        self._cache = cache
        self._window = window
        self._device = batch.slot_mapping.device
        self._starts = _starts(batch.query_lens)
        decodes = [i for i, length in enumerate(batch.query_lens) if length == 1]
        chunks = self._chunks(decodes, chunk_tokens)
        self.groups = [self._group(chunk) for chunk in chunks]
        self.spans = [self._span(i) for i, n in enumerate(batch.query_lens) if n > 1]

    @property
    def num_rows(self) -> int:
        """Most cache rows that one call gathers."""
        rows = [g.rows for g in self.groups] + [s.rows for s in self.spans]
        return max((len(r) for r in rows if r is not None), default=0)

    def _blocks(self, request: int) -> tuple[int, int]:
        """First block that a request's queries see, and the number from there on."""
        length = self._batch.seq_lens[request]
        first = 0
        if self._window is not None:
            first = max(0, length - self._batch.query_lens[request] + 1 - self._window)
        first //= self._cache.block_size
        return first, -(-length // self._cache.block_size) - first

    def _chunks(self, decodes: list[int], chunk_tokens: int) -> Iterator[list[int]]:
        sizes = {i: self._blocks(i)[1] for i in decodes}
        most = max(1, chunk_tokens // self._cache.block_size)
        chunk: list[int] = []
        for i in sorted(decodes, key=lambda i: -sizes[i]):
            width = sizes[chunk[0]] if chunk else sizes[i]
            if chunk and (width * (len(chunk) + 1) > most or sizes[i] < int(width * _LEAST_FILL)):
                yield chunk
                chunk = []
            chunk.append(i)
        if chunk:
            yield chunk

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)

    def _group(self, requests: list[int]) -> DecodeGroup:
        spans = [self._blocks(i) for i in requests]
        first = self._tensor([first for first, _ in spans]).unsqueeze(1)
        width = max(count for _, count in spans)
        lengths = self._tensor([self._batch.seq_lens[i] for i in requests]).unsqueeze(1)
        seen = self._seen(first, width, lengths - 1)
        return DecodeGroup(
            tokens=self._tensor([self._starts[i] for i in requests]),
            rows=self._rows(self._tensor(requests), first, width, lengths),
            blanks=self._blanks(seen),
            mask=seen[:, None, None, :],
        )

    def _span(self, request: int) -> PrefillSpan:
        start, count = self._starts[request], self._batch.query_lens[request]
        length = self._batch.seq_lens[request]
        if length == count and (self._window is None or count <= self._window):
            return PrefillSpan(start, start + count)
        first, width = self._blocks(request)
        origin = self._tensor([first]).unsqueeze(1)
        queries = torch.arange(length - count, length, device=self._device).unsqueeze(1)
        mask = self._seen(origin, width, queries)
        rows = self._rows(
            self._tensor([request]), origin, width, self._tensor([length]).unsqueeze(1)
        )
        blanks = self._blanks(mask.any(0, keepdim=True))
        return PrefillSpan(start, start + count, rows, blanks, mask)

    def _seen(self, first: torch.Tensor, width: int, query: torch.Tensor) -> torch.Tensor:
        """What each query sees of ``width`` blocks.

        Args:
            first: ``[num_queries or 1, 1]``, first block.
            width: Blocks.
            query: ``[num_queries, 1]``, positions.

        Returns:
            ``[num_queries, width * block_size]`` bool.
        """
        size = self._cache.block_size
        position = first * size + torch.arange(width * size, device=self._device)
        seen = position <= query
        return seen if self._window is None else seen & (position > query - self._window)

    def _rows(
        self, requests: torch.Tensor, first: torch.Tensor, width: int, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Cache rows of ``width`` blocks of each request, blank behind its last one."""
        cache = self._cache
        tables = self._batch.block_tables
        column = first + torch.arange(width, device=self._device)
        used = column * cache.block_size < lengths
        column = column.clamp(max=tables.shape[1] - 1)
        blocks = tables.index_select(0, requests).gather(1, column).long()
        blocks = torch.where(used, blocks, cache.blank)
        heads = torch.arange(cache.num_kv_heads, device=self._device) * (cache.blank + 1)
        return (heads[None, :, None] + blocks[:, None, :]).reshape(-1)

    def _blanks(self, seen: torch.Tensor) -> torch.Tensor:
        """Gathered tokens, over all heads, that a request's queries do not see."""
        hidden = ~seen[:, None, :].expand(-1, self._cache.num_kv_heads, -1)
        return hidden.reshape(-1).nonzero().squeeze(1)


def _starts(query_lens: Sequence[int]) -> list[int]:
    starts, total = [], 0
    for length in query_lens:
        starts.append(total)
        total += length
    return starts
