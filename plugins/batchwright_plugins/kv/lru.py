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
    """Least recently used first; blocks without content go before all cached ones.

    Blocks without content are a stack; cached ones are a queue that hits are taken out of.
    Together they are the one free list of vLLM V1, which both kinds enter at opposite ends.
    O(1).
    """

    name = "lru"

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._empty: list[int] = []
        self._cached: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._empty) + len(self._cached)

    def __iter__(self) -> Iterator[int]:
        yield from reversed(self._empty)
        yield from self._cached

    def add_empty(self, block_ids: Sequence[int]) -> None:
        self._empty.extend(reversed(block_ids))

    def add_cached(self, block_ids: Sequence[int]) -> None:
        for block_id in block_ids:
            self._cached[block_id] = None

    def take(self) -> int:
        return self._empty.pop() if self._empty else self._cached.popitem(last=False)[0]

    def take_many(self, count: int) -> list[int]:
        if not count or count > len(self._empty):
            return super().take_many(count)
        taken = self._empty[: -count - 1 : -1]
        del self._empty[-count:]
        return taken

    def remove(self, block_id: int) -> None:
        if block_id in self._cached:
            del self._cached[block_id]
        else:
            self._empty.remove(block_id)  # O(n), but what holds nothing is never adopted
