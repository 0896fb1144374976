"""Decodes that are computed together, and what is gathered for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from .kept_groups import Kept, KeptGroups
    from .step_layout import Requests, StepLayout

__all__ = ["DecodeGroup", "decode_groups"]

_LEAST_FILL = 0.75  # a shorter request in a group pads at most a quarter of its share
_LEAST_SHARERS = 4  # requests
_LEAST_SHARED = 64  # tokens; for fewer, another two products do not pay


@dataclass(frozen=True, eq=False, slots=True)
class DecodeGroup:
    """Requests with one token each, computed by one call; key heads come first.

    Args:
        tokens: ``[num_reqs]`` int64, their tokens' places in the batch; None: they are
            the batch, in its order.
        num_reqs: Number of requests.
        num_shared: Keys at the beginning that all of them share, gathered once.
        shared_rows: ``[2 * num_kv_heads * num_shared_blocks]`` int64, their cache rows;
            None: they share none.
        num_keys: Keys that are attended to of each, ``num_blocks * block_size``.
        rows: ``[2 * num_kv_heads * num_reqs * num_blocks]`` int64, cache rows to gather,
            of as many blocks as are kept if they are; None: they are there already.
        kept: Storage of gathered keys; None: none.
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


def decode_groups(
    layout: StepLayout, keeper: KeptGroups | None, chunk_tokens: int
) -> list[DecodeGroup]:
    """Group the requests with one token.

    Args:
        layout: Of the step.
        keeper: Keeps what is gathered; None: nothing is kept.
        chunk_tokens: Most tokens that a group gathers (one request may exceed it).
    """
    groups = _Groups(layout, keeper if layout.window is None else None)
    decodes = np.flatnonzero(layout.counts == 1)
    return [
        groups.make(chunk, num_shared)
        for requests, num_shared in groups.sharers(decodes)
        for chunk in groups.chunks(requests, num_shared, chunk_tokens)
    ]


class _Groups:
    def __init__(self, layout: StepLayout, keeper: KeptGroups | None) -> None:
        self._layout = layout
        self._keeper = keeper

    def sharers(self, decodes: Requests) -> Iterator[tuple[Requests, int]]:
        """Split decodes by the blocks that they begin with.

        Yields:
            Requests, and how many blocks they all begin with (0 for those left over).
        """
        left = np.ones(len(decodes), np.bool_)
        if self._layout.window is None and self._layout.device.type == "cpu" and len(decodes):
            tables = self._layout.batch.block_tables.numpy()
            firsts = tables[decodes, 0]
            blocks, counts = np.unique(firsts, return_counts=True)
            for block in blocks[counts >= _LEAST_SHARERS]:
                members = decodes[firsts == block]
                num_shared = self._num_shared(members, tables)
                if num_shared * self._layout.cache.block_size >= _LEAST_SHARED:
                    left &= firsts != block
                    yield members, num_shared
        yield decodes[left], 0

    def _num_shared(self, members: Requests, tables: NDArray[np.int32]) -> int:
        """Blocks that requests begin with alike, the ones that they write to left out."""
        most = (int(self._layout.lens[members].min()) - 1) // self._layout.cache.block_size
        some = tables[members, :most]
        return int((some == some[0]).all(0).cumprod().sum())

    def chunks(self, decodes: Requests, num_shared: int, chunk_tokens: int) -> Iterator[Requests]:
        """Split decodes, the longest first; each chunk in the order of the batch."""
        sizes = self._layout.widths[decodes] - num_shared
        order = np.argsort(-sizes, kind="stable")
        most = max(1, chunk_tokens // self._layout.cache.block_size)
        begin = 0
        while begin < len(order):
            width = int(sizes[order[begin]])
            alike = sizes[order[begin:]] >= int(width * _LEAST_FILL)
            count = min(int(alike.sum()), max(1, most // max(1, width)))
            yield np.sort(decodes[order[begin : begin + count]])
            begin += count

    def make(self, requests: Requests, num_shared: int) -> DecodeGroup:
        """Lay out decodes that begin with so many shared blocks."""
        first = self._layout.tensor(self._layout.firsts[requests] + num_shared).unsqueeze(1)
        width = int(self._layout.widths[requests].max()) - num_shared
        lengths = self._layout.tensor(self._layout.lens[requests]).unsqueeze(1)
        seen = self._layout.seen(first, width, lengths - 1)
        kept = self._find(requests, num_shared, width)
        is_filled = kept is not None and kept.is_filled
        is_all = len(requests) == self._layout.starts[-1]
        return DecodeGroup(
            tokens=None if is_all else self._layout.tensor(self._layout.starts[requests]),
            num_reqs=len(requests),
            num_shared=num_shared * self._layout.cache.block_size,
            shared_rows=self._shared_rows(int(requests[0]), num_shared),
            num_keys=seen.shape[1],
            rows=None if is_filled else self._layout.rows(requests, first, width, lengths),
            kept=kept,
            places=self._places(requests, num_shared, kept) if kept and is_filled else None,
            blanks=self._layout.blanks(first, seen),
            bias=self._layout.bias(seen).repeat(self._layout.cache.num_kv_heads, 1).unsqueeze(1),
        )

    def _find(self, requests: Requests, num_shared: int, width: int) -> Kept | None:
        if self._keeper is None:
            return None
        tables = self._layout.batch.block_tables.numpy()[requests]
        return self._keeper.find(self._layout.lens[requests], tables, num_shared, width)

    def _places(self, requests: Requests, num_shared: int, kept: Kept) -> torch.Tensor:
        size = self._layout.cache.block_size
        inside = self._layout.lens[requests] - 1 - num_shared * size
        sequences = np.arange(self._layout.cache.num_kv_heads * len(requests))
        begins = sequences * (kept.num_blocks * size)
        return self._layout.tensor(begins + np.tile(inside, self._layout.cache.num_kv_heads))

    def _shared_rows(self, request: int, num_blocks: int) -> torch.Tensor | None:
        if not num_blocks:
            return None
        return self._layout.cache_rows(
            self._layout.batch.block_tables[request : request + 1, :num_blocks]
        )
