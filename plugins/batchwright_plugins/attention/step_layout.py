"""What the layers of one step share: who is computed together, what is gathered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from attrs import frozen

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBatch

    from .paged_cache import PagedCache

__all__ = ["DecodeGroup", "PrefillSpan", "StepLayout", "unused_slots"]

_LEAST_FILL = 0.75  # a shorter request in a group pads at most a quarter of its share
_LEAST_SHARERS = 4  # requests
_LEAST_SHARED = 64  # tokens; for fewer, another two products do not pay


@frozen(eq=False)
class DecodeGroup:
    """Requests with one token each, computed by one call; key heads come first.

    Args:
        tokens: ``[num_reqs]`` int64, their tokens' places in the batch; None: they are
            the batch, in its order.
        num_reqs: How many they are.
        num_shared: Keys at the beginning that all of them share, gathered once.
        shared_rows: ``[2 * num_kv_heads * num_shared_blocks]`` int64, their cache rows;
            None: they share none.
        num_keys: Keys that are gathered for each, ``num_blocks * block_size``.
        rows: ``[2 * num_kv_heads * num_reqs * num_blocks]`` int64, cache rows to gather.
        blanks: Gathered tokens that are to be set to zero; None: none.
        bias: ``[num_kv_heads * num_reqs, 1, num_keys]``, 0 for what the query sees of its
            own keys, else minus infinity.
    """

    tokens: torch.Tensor | None
    num_reqs: int
    num_shared: int
    shared_rows: torch.Tensor | None
    num_keys: int
    rows: torch.Tensor
    blanks: torch.Tensor | None
    bias: torch.Tensor

    @property
    def begin(self) -> int:
        """Rows that the shared keys and values take."""
        return 0 if self.shared_rows is None else len(self.shared_rows)


@frozen(eq=False)
class PrefillSpan:
    """Tokens of one request, or of several with equally many and nothing before them.

    Args:
        start: The first token's place in the batch.
        stop: Behind the last one.
        num_reqs: Requests.
        rows: ``[2 * num_kv_heads * num_blocks]`` int64, cache rows to gather; None if
            the step's own keys and values are all there is to see.
        blanks: Gathered tokens that are to be set to zero; None: none.
        bias: ``[stop - start, num_blocks * block_size]``, 0 for what a query sees, else
            minus infinity; None without rows.
    """

    start: int
    stop: int
    num_reqs: int = 1
    rows: torch.Tensor | None = None
    blanks: torch.Tensor | None = None
    bias: torch.Tensor | None = None


class StepLayout:
    """The groups and spans of one step for the layers with one window.

    Args:
        batch: The step's batch.
        cache: Whose blocks are gathered.
        dtype: Of biases.
        window: Tokens that a query sees, itself included; None: all before it.
        chunk_tokens: Most tokens that a group gathers (one request may exceed it).
    """

    def __init__(
        self,
        batch: AttentionBatch,
        cache: PagedCache,
        dtype: torch.dtype,
        window: int | None,
        chunk_tokens: int,
    ) -> None:
        self._batch = batch
        self._cache = cache
        self._dtype = dtype
        self._window = window
        self._device = batch.slot_mapping.device
        self._starts = [0, *accumulate(batch.query_lens)]
        decodes = [i for i, length in enumerate(batch.query_lens) if length == 1]
        self.groups = [
            self._group(chunk, num_shared)
            for requests, num_shared in self._sharers(decodes)
            for chunk in self._chunks(requests, num_shared, chunk_tokens)
        ]
        self.spans = list(self._spans([i for i, n in enumerate(batch.query_lens) if n > 1]))

    @property
    def num_rows(self) -> int:
        """Most cache rows that are gathered at once."""
        groups = max((g.begin + len(g.rows) for g in self.groups), default=0)
        spans = (len(span.rows) for span in self.spans if span.rows is not None)
        return max(groups, max(spans, default=0))

    @property
    def num_scores(self) -> int:
        """Most pairs of a decode and a key that one call has."""
        scores = (g.num_reqs * (g.num_shared + g.num_keys) for g in self.groups)
        return max(scores, default=0)

    def _sharers(self, decodes: list[int]) -> Iterator[tuple[list[int], int]]:
        """Split decodes by the blocks that they begin with.

        Yields:
            Requests, and how many blocks they all begin with (0 for those left over).
        """
        families: dict[int, list[int]] = {}
        if self._window is None and self._device.type == "cpu":
            firsts = self._batch.block_tables[:, 0].tolist()
            for i in decodes:
                families.setdefault(firsts[i], []).append(i)
        left = set(decodes)
        for members in families.values():
            num_shared = self._num_shared(members) if len(members) >= _LEAST_SHARERS else 0
            if num_shared * self._cache.block_size >= _LEAST_SHARED:
                left.difference_update(members)
                yield members, num_shared
        yield [i for i in decodes if i in left], 0

    def _num_shared(self, members: list[int]) -> int:
        """Blocks that requests begin with alike, the ones that they write to left out."""
        shortest = min(self._batch.seq_lens[i] for i in members)
        most = (shortest - 1) // self._cache.block_size
        tables = self._batch.block_tables[self._tensor(members), :most]
        return int((tables == tables[0]).all(0).long().cumprod(0).sum())

    def _blocks(self, request: int) -> tuple[int, int]:
        """First block that a request's queries see, and the number from there on."""
        length = self._batch.seq_lens[request]
        first = 0
        if self._window is not None:
            first = max(0, length - self._batch.query_lens[request] + 1 - self._window)
        first //= self._cache.block_size
        return first, -(-length // self._cache.block_size) - first

    def _chunks(
        self, decodes: list[int], num_shared: int, chunk_tokens: int
    ) -> Iterator[list[int]]:
        """Split decodes, the longest first; each chunk in the order of the batch."""
        sizes = {i: self._blocks(i)[1] - num_shared for i in decodes}
        most = max(1, chunk_tokens // self._cache.block_size)
        chunk: list[int] = []
        width = 0
        for i in sorted(decodes, key=sizes.__getitem__, reverse=True):
            if chunk and (width * (len(chunk) + 1) > most or sizes[i] < int(width * _LEAST_FILL)):
                yield sorted(chunk)
                chunk = []
            width = width if chunk else sizes[i]
            chunk.append(i)
        if chunk:
            yield sorted(chunk)

    def _tensor(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)

    def _group(self, requests: list[int], num_shared: int) -> DecodeGroup:
        """Lay out decodes that begin with so many shared blocks."""
        spans = [self._blocks(i) for i in requests]
        first = self._tensor([first + num_shared for first, _ in spans]).unsqueeze(1)
        width = max(count for _, count in spans) - num_shared
        lengths = self._tensor([self._batch.seq_lens[i] for i in requests]).unsqueeze(1)
        seen = self._seen(first, width, lengths - 1)
        is_all = len(requests) == self._starts[-1]
        return DecodeGroup(
            tokens=None if is_all else self._tensor([self._starts[i] for i in requests]),
            num_reqs=len(requests),
            num_shared=num_shared * self._cache.block_size,
            shared_rows=self._shared_rows(requests[0], num_shared),
            num_keys=seen.shape[1],
            rows=self._rows(requests, first, width, lengths),
            blanks=self._blanks(first, seen),
            bias=self._bias(seen).repeat(self._cache.num_kv_heads, 1).unsqueeze(1),
        )

    def _shared_rows(self, request: int, num_blocks: int) -> torch.Tensor | None:
        if not num_blocks:
            return None
        return self._cache_rows(self._batch.block_tables[request : request + 1, :num_blocks])

    def _spans(self, requests: list[int]) -> Iterator[PrefillSpan]:
        """Spans in the order of the batch; neighbours that are alike become one."""
        alike: list[int] = []
        for i in requests:
            if alike and (i != alike[-1] + 1 or not self._is_alike(i, alike[0])):
                yield self._fresh(alike)
                alike = []
            if self._is_fresh(i):
                alike.append(i)
            else:
                yield self._span(i)
        if alike:
            yield self._fresh(alike)

    def _is_fresh(self, request: int) -> bool:
        """Whether all that its queries see is computed in this step, and no window ends."""
        count = self._batch.query_lens[request]
        is_whole = self._batch.seq_lens[request] == count
        return is_whole and (self._window is None or count <= self._window)

    def _is_alike(self, request: int, other: int) -> bool:
        lens = self._batch.query_lens
        return self._is_fresh(request) and lens[request] == lens[other]

    def _fresh(self, requests: list[int]) -> PrefillSpan:
        stop = self._starts[requests[-1] + 1]
        return PrefillSpan(self._starts[requests[0]], stop, len(requests))

    def _span(self, request: int) -> PrefillSpan:
        start, count = self._starts[request], self._batch.query_lens[request]
        length = self._batch.seq_lens[request]
        first, width = self._blocks(request)
        origin, lengths = self._tensor([[first]]), self._tensor([[length]])
        queries = torch.arange(length - count, length, device=self._device).unsqueeze(1)
        seen = self._seen(origin, width, queries)
        rows = self._rows([request], origin, width, lengths)
        blanks = self._blanks(origin, seen.any(0, keepdim=True))
        return PrefillSpan(start, start + count, 1, rows, blanks, self._bias(seen))

    def _seen(self, first: torch.Tensor, width: int, query: torch.Tensor) -> torch.Tensor:
        """What each query sees of ``width`` blocks.

        Args:
            first: ``[num_queries or 1, 1]``, first block.
            width: Blocks.
            query: ``[num_queries, 1]``, positions.

        Returns:
            ``[num_queries, width * block_size]`` bool.
        """
        position = self._positions(first, width)
        seen = position <= query
        return seen if self._window is None else seen & (position > query - self._window)

    def _positions(self, first: torch.Tensor, width: int) -> torch.Tensor:
        size = self._cache.block_size
        return first * size + torch.arange(width * size, device=self._device)

    def _bias(self, seen: torch.Tensor) -> torch.Tensor:
        bias = torch.zeros(seen.shape, dtype=self._dtype, device=self._device)
        return bias.masked_fill_(~seen, -torch.inf)

    def _rows(
        self, requests: list[int], first: torch.Tensor, width: int, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Cache rows of ``width`` blocks of each request, blank behind its last one."""
        cache, tables = self._cache, self._batch.block_tables
        column = first + torch.arange(width, device=self._device)
        used = column * cache.block_size < lengths
        column.clamp_(max=tables.shape[1] - 1)
        some = tables if len(requests) == len(tables) else tables[self._tensor(requests)]
        return self._cache_rows(torch.where(used, some.gather(1, column), cache.blank))

    def _cache_rows(self, blocks: torch.Tensor) -> torch.Tensor:
        """Rows of blocks ``[num_reqs, width]``, by head, then request, keys before values."""
        cache = self._cache
        heads = torch.arange(cache.num_kv_heads, device=self._device) * (cache.blank + 1)
        keys = (heads[:, None, None] + blocks).reshape(-1)
        return torch.cat((keys, keys + cache.rows_per_half))

    def _blanks(self, first: torch.Tensor, seen: torch.Tensor) -> torch.Tensor | None:
        """Gathered tokens, over all heads, that lie before a window.

        They may be anybody's: the request did not have to write them. What lies behind
        its last token is zero, see ``unused_slots``.
        """
        if self._window is None:
            return None
        before = ~seen & (seen.cumsum(1) == 0)
        hidden = before.expand(self._cache.num_kv_heads, -1, -1)
        keys = hidden.reshape(-1).nonzero().squeeze(1)
        return torch.cat((keys, keys + hidden.numel()))


def unused_slots(batch: AttentionBatch, block_size: int) -> torch.Tensor | None:
    """Slots behind the last tokens of requests that begin a block in this step.

    What lay in them before may be NaN, and NaN times a weight of zero is NaN. They are
    set to zero once, when a block is begun; from then on its owner fills it up.

    Args:
        batch: The step's batch.
        block_size: Tokens a block.

    Returns:
        ``[num_slots]`` int64; None if there are none.
    """
    rests = []
    stop = 0
    for granted, length in zip(batch.query_lens, batch.seq_lens, strict=True):
        stop += granted
        inside = length % block_size
        if inside and inside <= granted:
            rests.append((stop - 1, block_size - inside))
    if not rests:
        return None
    device = batch.slot_mapping.device
    last, counts = torch.tensor(rests, device=device).T
    rank = torch.arange(1, block_size, device=device)
    slots = batch.slot_mapping[last].unsqueeze(1) + rank
    return slots[rank <= counts.unsqueeze(1)]
