"""Free blocks in the order of their last use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from batchwright.protocols import Eviction

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Lru"]


class Lru(Eviction):
    """Least recently used first; blocks that hold nothing go before all cached ones.

    One ordered dict is the free list and the eviction order at once. All O(1).
    """

    name = "lru"

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._free: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._free)

    def __iter__(self) -> Iterator[int]:
        return iter(self._free)

    def add_empty(self, block_ids: Sequence[int]) -> None:
        for block_id in reversed(block_ids):
            self._free[block_id] = None
            self._free.move_to_end(block_id, last=False)

    def add_cached(self, block_ids: Sequence[int]) -> None:
        for block_id in block_ids:
            self._free[block_id] = None

    def take(self) -> int:
        return self._free.popitem(last=False)[0]

    def remove(self, block_id: int) -> None:
        del self._free[block_id]
