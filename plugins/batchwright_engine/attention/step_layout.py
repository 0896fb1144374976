"""Data that the layers of one step share: blocks and masks of each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchwright.protocols.attention import AttentionBatch

    from .paged_cache import PagedCache

    Requests = NDArray[np.int64]
    """Requests by their place in the batch, or a number for each."""

__all__ = ["StepLayout", "unused_slots"]


class StepLayout:
    """The requests of one step as layers with one window see them.

    Args:
        batch: The step's batch.
        cache: Whose blocks are gathered.
        dtype: Of biases.
        window: Tokens that a query sees, itself included; None: all before it.

    Attributes:
        counts: ``[num_reqs]``, tokens of each in the step.
        lens: ``[num_reqs]``, tokens of each in the cache after it.
        starts: ``[num_reqs + 1]``, the place of each one's first token.
        firsts: ``[num_reqs]``, the first block that its queries see.
        widths: ``[num_reqs]``, blocks that they see from there on.
    """

    def __init__(
        self, batch: AttentionBatch, cache: PagedCache, dtype: torch.dtype, window: int | None
    ) -> None:
        self.batch = batch
        self.cache = cache
        self.window = window
        self.device = batch.slot_mapping.device
        self.counts = np.array(batch.query_lens, np.int64)
        self.lens = np.array(batch.seq_lens, np.int64)
        self.starts = np.zeros(len(self.lens) + 1, np.int64)
        self.counts.cumsum(out=self.starts[1:])
        self.firsts, self.widths = self._blocks()
        self._dtype = dtype

    def _blocks(self) -> tuple[Requests, Requests]:
        """First block that each request's queries see, and the number from there on."""
        size = self.cache.block_size
        firsts = np.zeros_like(self.lens)
        if self.window is not None:
            begins = self.lens - self.counts + 1 - self.window
            firsts = np.maximum(begins, 0) // size
        return firsts, -(-self.lens // size) - firsts

    def tensor(self, values: Requests) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)

    def seen(self, first: torch.Tensor, width: int, query: torch.Tensor) -> torch.Tensor:
        """Return the mask of ``width`` blocks for each query.

        Args:
            first: ``[num_queries or 1, 1]``, first block.
            width: Blocks.
            query: ``[num_queries, 1]``, positions.

        Returns:
            ``[num_queries, width * block_size]`` bool.
        """
        position = self._positions(first, width)
        seen = position <= query
        return seen if self.window is None else seen & (position > query - self.window)

    def _positions(self, first: torch.Tensor, width: int) -> torch.Tensor:
        size = self.cache.block_size
        return first * size + torch.arange(width * size, device=self.device)

    def bias(self, seen: torch.Tensor) -> torch.Tensor:
        bias = torch.zeros(seen.shape, dtype=self._dtype, device=self.device)
        return bias.masked_fill_(~seen, -torch.inf)

    def rows(
        self, requests: Requests, first: torch.Tensor, width: int, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Cache rows of ``width`` blocks of each request, blank behind its last one."""
        cache, tables = self.cache, self.batch.block_tables
        column = first + torch.arange(width, device=self.device)
        used = column * cache.block_size < lengths
        column.clamp_(max=tables.shape[1] - 1)
        some = tables if len(requests) == len(tables) else tables[self.tensor(requests)]
        return self.cache_rows(torch.where(used, some.gather(1, column), cache.blank))

    def cache_rows(self, blocks: torch.Tensor) -> torch.Tensor:
        """Rows of blocks ``[num_reqs, width]``, by head, then request, keys before values."""
        cache = self.cache
        heads = torch.arange(cache.num_kv_heads, device=self.device) * (cache.blank + 1)
        keys = (heads[:, None, None] + blocks).reshape(-1)
        return torch.cat((keys, keys + cache.rows_per_half))

    def blanks(self, first: torch.Tensor, seen: torch.Tensor) -> torch.Tensor | None:
        """Gathered tokens, over all heads, that lie before a window.

        They may belong to any request: this one did not have to write them. What lies behind
        its last token is zero, see ``unused_slots``.
        """
        if self.window is None:
            return None
        before = ~seen & (seen.cumsum(1) == 0)
        hidden = before.expand(self.cache.num_kv_heads, -1, -1)
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
