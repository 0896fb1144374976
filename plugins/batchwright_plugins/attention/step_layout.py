"""What the layers of one step share: who is computed together, what is gathered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchwright.protocols.attention import AttentionBatch

    from .kept_groups import Kept, KeptGroups
    from .paged_cache import PagedCache

    Requests = NDArray[np.int64]
    """Requests by their place in the batch, or a number for each."""

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
        num_keys: Keys that are attended to of each, ``num_blocks * block_size``.
        rows: ``[2 * num_kv_heads * num_reqs * num_blocks]`` int64, cache rows to gather,
            of as many blocks as are kept if they are; None: they are there already.
        kept: Where what is gathered is kept; None: nowhere.
        places: ``[num_kv_heads * num_reqs]`` int64, where the step's keys belong among
            what is kept, as rows of a token; None without need.
        blanks: Gathered tokens that are to be set to zero; None: none.
        bias: ``[num_kv_heads * num_reqs, 1, num_keys]``, 0 for what the query sees of its
            own keys, else minus infinity.
    """

    tokens: torch.Tensor | None
    num_reqs: int
    num_shared: int
    shared_rows: torch.Tensor | None
    num_keys: int
    rows: torch.Tensor | None
    kept: Kept | None
    places: torch.Tensor | None
    blanks: torch.Tensor | None
    bias: torch.Tensor

    @property
    def begin(self) -> int:
        """Rows that the shared keys and values take."""
        return 0 if self.shared_rows is None else len(self.shared_rows)

    @property
    def num_rows(self) -> int:
        """Cache rows that are gathered into the common room."""
        own = self.rows if self.kept is None else None
        return self.begin + (0 if own is None else len(own))


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
        keeper: Keeps what is gathered for decodes; None: nobody does.
        window: Tokens that a query sees, itself included; None: all before it.
        chunk_tokens: Most tokens that a group gathers (one request may exceed it).
    """

    def __init__(
        self,
        batch: AttentionBatch,
        cache: PagedCache,
        dtype: torch.dtype,
        keeper: KeptGroups | None,
        window: int | None,
        chunk_tokens: int,
    ) -> None:
        self._batch = batch
        self._cache = cache
        self._dtype = dtype
        self._keeper = keeper if window is None else None
        self._window = window
        self._device = batch.slot_mapping.device
        self._counts = np.array(batch.query_lens, np.int64)
        self._lens = np.array(batch.seq_lens, np.int64)
        self._starts = np.zeros(len(self._lens) + 1, np.int64)
        self._counts.cumsum(out=self._starts[1:])
        self._firsts, self._widths = self._blocks()
        decodes = np.flatnonzero(self._counts == 1)
        self.groups = [
            self._group(chunk, num_shared)
            for requests, num_shared in self._sharers(decodes)
            for chunk in self._chunks(requests, num_shared, chunk_tokens)
        ]
        self.spans = list(self._spans(np.flatnonzero(self._counts > 1).tolist()))

    @property
    def num_rows(self) -> int:
        """Most cache rows that are gathered at once."""
        groups = max((g.num_rows for g in self.groups), default=0)
        spans = (len(span.rows) for span in self.spans if span.rows is not None)
        return max(groups, max(spans, default=0))

    @property
    def num_scores(self) -> int:
        """Most pairs of a decode and a key that one call has."""
        scores = (g.num_reqs * (g.num_shared + g.num_keys) for g in self.groups)
        return max(scores, default=0)

    def _blocks(self) -> tuple[Requests, Requests]:
        """First block that each request's queries see, and the number from there on."""
        size = self._cache.block_size
        firsts = np.zeros_like(self._lens)
        if self._window is not None:
            begins = self._lens - self._counts + 1 - self._window
            firsts = np.maximum(begins, 0) // size
        return firsts, -(-self._lens // size) - firsts

    def _sharers(self, decodes: Requests) -> Iterator[tuple[Requests, int]]:
        """Split decodes by the blocks that they begin with.

        Yields:
            Requests, and how many blocks they all begin with (0 for those left over).
        """
        left = np.ones(len(decodes), np.bool_)
        if self._window is None and self._device.type == "cpu" and len(decodes):
            tables = self._batch.block_tables.numpy()
            firsts = tables[decodes, 0]
            blocks, counts = np.unique(firsts, return_counts=True)
            for block in blocks[counts >= _LEAST_SHARERS]:
                members = decodes[firsts == block]
                num_shared = self._num_shared(members, tables)
                if num_shared * self._cache.block_size >= _LEAST_SHARED:
                    left &= firsts != block
                    yield members, num_shared
        yield decodes[left], 0

    def _num_shared(self, members: Requests, tables: NDArray[np.int32]) -> int:
        """Blocks that requests begin with alike, the ones that they write to left out."""
        most = (int(self._lens[members].min()) - 1) // self._cache.block_size
        some = tables[members, :most]
        return int((some == some[0]).all(0).cumprod().sum())

    def _chunks(self, decodes: Requests, num_shared: int, chunk_tokens: int) -> Iterator[Requests]:
        """Split decodes, the longest first; each chunk in the order of the batch."""
        sizes = self._widths[decodes] - num_shared
        order = np.argsort(-sizes, kind="stable")
        most = max(1, chunk_tokens // self._cache.block_size)
        begin = 0
        while begin < len(order):
            width = int(sizes[order[begin]])
            alike = sizes[order[begin:]] >= int(width * _LEAST_FILL)
            count = min(int(alike.sum()), max(1, most // max(1, width)))
            yield np.sort(decodes[order[begin : begin + count]])
            begin += count

    def _tensor(self, values: Requests) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)

    def _group(self, requests: Requests, num_shared: int) -> DecodeGroup:
        """Lay out decodes that begin with so many shared blocks."""
        first = self._tensor(self._firsts[requests] + num_shared).unsqueeze(1)
        width = int(self._widths[requests].max()) - num_shared
        lengths = self._tensor(self._lens[requests]).unsqueeze(1)
        seen = self._seen(first, width, lengths - 1)
        kept = self._find(requests, num_shared, width)
        is_filled = kept is not None and kept.is_filled
        is_all = len(requests) == self._starts[-1]
        return DecodeGroup(
            tokens=None if is_all else self._tensor(self._starts[requests]),
            num_reqs=len(requests),
            num_shared=num_shared * self._cache.block_size,
            shared_rows=self._shared_rows(int(requests[0]), num_shared),
            num_keys=seen.shape[1],
            rows=None
            if is_filled
            else self._rows(requests, first, kept.num_blocks if kept else width, lengths),
            kept=kept,
            places=self._places(requests, num_shared, kept) if kept and is_filled else None,
            blanks=self._blanks(first, seen),
            bias=self._bias(seen).repeat(self._cache.num_kv_heads, 1).unsqueeze(1),
        )

    def _find(self, requests: Requests, num_shared: int, width: int) -> Kept | None:
        if self._keeper is None:
            return None
        tables = self._batch.block_tables.numpy()[requests]
        return self._keeper.find(self._lens[requests], tables, num_shared, width)

    def _places(self, requests: Requests, num_shared: int, kept: Kept) -> torch.Tensor:
        size = self._cache.block_size
        inside = self._lens[requests] - 1 - num_shared * size
        sequences = np.arange(self._cache.num_kv_heads * len(requests))
        begins = sequences * (kept.num_blocks * size)
        return self._tensor(begins + np.tile(inside, self._cache.num_kv_heads))

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
        count = int(self._counts[request])
        is_whole = bool(self._lens[request] == count)
        return is_whole and (self._window is None or count <= self._window)

    def _is_alike(self, request: int, other: int) -> bool:
        counts = self._counts
        return self._is_fresh(request) and bool(counts[request] == counts[other])

    def _fresh(self, requests: list[int]) -> PrefillSpan:
        start, stop = self._starts[requests[0]], self._starts[requests[-1] + 1]
        return PrefillSpan(int(start), int(stop), len(requests))

    def _span(self, request: int) -> PrefillSpan:
        only = np.array([request])
        start, count = int(self._starts[request]), int(self._counts[request])
        length, width = int(self._lens[request]), int(self._widths[request])
        first, lengths = (self._tensor(a[only]).unsqueeze(1) for a in (self._firsts, self._lens))
        queries = torch.arange(length - count, length, device=self._device).unsqueeze(1)
        seen = self._seen(first, width, queries)
        rows = self._rows(only, first, width, lengths)
        blanks = self._blanks(first, seen.any(0, keepdim=True))
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
        self, requests: Requests, first: torch.Tensor, width: int, lengths: torch.Tensor
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
    counts, lens = np.array(batch.query_lens), np.array(batch.seq_lens)
    inside = lens % block_size
    begun = np.flatnonzero((inside > 0) & (inside <= counts))
    if not len(begun):
        return None
    device = batch.slot_mapping.device
    last = torch.from_numpy(counts.cumsum()[begun] - 1).to(device)
    rests = torch.from_numpy(block_size - inside[begun]).to(device)
    rank = torch.arange(1, block_size, device=device)
    slots = batch.slot_mapping[last].unsqueeze(1) + rank
    return slots[rank <= rests.unsqueeze(1)]
