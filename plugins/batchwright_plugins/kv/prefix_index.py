"""The index of blocks by content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from batchwright_plugins.kv.block_table import BlockTable

__all__ = ["PrefixIndex"]

_LOOK_AHEAD: Final = 8
"""Blocks that are hashed at once while a lookup goes along a request's chain."""


class PrefixIndex:
    """Published blocks by their hash.

    Several blocks may hold the same content, when equal requests were computed side
    by side; the one published first is found, and when it goes the next is.

    A published block is hashed when a lookup could find it, and not before: its table waits
    under the hash of the block in front of it. A lookup that comes along there hashes it, and
    the table waits under the next hash. Blocks with the same content are known to lookups in
    the order of their publication. So what lookups find is what they would find if each
    block was hashed at once, and most blocks of requests that share no prefix never are.

    Attributes:
        hash_of: By block, its hash if it is published and hashed.
        waits_in: By block, its table if it is published, but not hashed yet.
        num_waits: Tables that have begun to wait so far.
    """

    def __init__(self, num_blocks: int) -> None:
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self.waits_in: list[BlockTable | None] = [None] * num_blocks
        self.num_waits = 0
        self._blocks: dict[bytes, int | dict[int, None]] = {}
        self._waiting: dict[bytes, list[BlockTable]] = {}
        self._orders = [0] * num_blocks
        self._next_order = 0

    def is_published(self, block_id: int) -> bool:
        """Return True if lookups can find a block."""
        return self.hash_of[block_id] is not None or self.waits_in[block_id] is not None

    def find(self, table: BlockTable, most: int) -> list[int]:
        """Blocks of the longest published prefix of a table's request, at most so many."""
        found: list[int] = []
        hashes: list[bytes] = []
        blocks, waiting, parent = self._blocks, self._waiting, table.seed
        for index in range(most):
            if parent in waiting:
                self._hash_behind(parent)
            if index >= len(hashes):
                hashes = table.hashes(min(most, index + _LOOK_AHEAD) if index else 1)
            parent = hashes[index]
            block = blocks.get(parent)
            if block is None:
                break
            found.append(block if isinstance(block, int) else next(iter(block)))
        return found

    def hit_length(self, table: BlockTable, most: int) -> int:
        """Blocks that ``find`` would find; cheap where little has changed since last time."""
        blocks, waiting = self._blocks, self._waiting
        length = min(table.hit_length, most)
        hashes = table.hashes(length)
        if table.num_waits_seen != self.num_waits:
            table.num_waits_seen = self.num_waits
            for parent in (table.seed, *hashes[:length]):
                if parent in waiting:
                    self._hash_behind(parent)
        # Chains are evicted from their end: where the hit ended is where to look.
        while length and hashes[length - 1] not in blocks:
            length -= 1
        while length < most:
            parent = hashes[length - 1] if length else table.seed
            if parent in waiting:
                self._hash_behind(parent)
            hashes = table.hashes(length + 1)
            if hashes[length] not in blocks:
                break
            length += 1
        table.hit_length = length
        return length

    def publish(self, table: BlockTable, num_full: int) -> None:
        """Publish a table's first full blocks, those that are not published yet."""
        if not table.is_waiting:
            self._begin_to_wait(table)
        order = self._next_order
        for block_id in table.block_ids[table.num_published : num_full]:
            self.waits_in[block_id] = table
            self._orders[block_id] = order
            order += 1
        self._next_order = order
        table.num_published = num_full

    def publish_next(self, tables: Iterable[BlockTable]) -> None:
        """Publish, of each of these tables, the first block that is not published yet."""
        waits_in, orders, order = self.waits_in, self._orders, self._next_order
        for table in tables:
            if not table.is_waiting:
                self._begin_to_wait(table)
            index = table.num_published
            block_id = table.block_ids[index]
            waits_in[block_id] = table
            orders[block_id] = order
            table.num_published = index + 1
            order += 1
        self._next_order = order

    def give_up(self, table: BlockTable) -> None:
        """Part a table from its request, which may end; blocks that wait stay findable."""
        table.give_up()
        rest = table.block_ids[table.num_indexed : table.num_published]
        table.num_left = [*map(self.waits_in.__getitem__, rest)].count(table)
        if not table.num_left:
            self._wait_no_more(table)

    def take_back(self, table: BlockTable, num_blocks: int) -> None:
        """Forget what is published of a table behind so many blocks."""
        self.remove(table.block_ids[num_blocks : table.num_published])
        table.num_published = min(table.num_published, num_blocks)
        if table.num_indexed >= table.num_published:
            if table.is_waiting:
                self._wait_no_more(table)
            table.num_indexed = table.num_published

    def remove(self, block_ids: Iterable[int]) -> None:
        """Forget blocks; those that are not published are left alone."""
        hash_of, known = self.hash_of, self._blocks
        for block_id in block_ids:
            digest = hash_of[block_id]
            if digest is None:
                if self.waits_in[block_id] is not None:
                    self._remove_waiting(block_id)
                continue
            hash_of[block_id] = None
            blocks = known[digest]
            if isinstance(blocks, int):
                del known[digest]
                continue
            del blocks[block_id]
            if len(blocks) == 1:
                known[digest] = next(iter(blocks))

    def published(self) -> Iterator[int]:
        """Ids of the published blocks."""
        return filter(self.is_published, range(len(self.hash_of)))

    def clear(self) -> None:
        """Forget every block; no request holds any."""
        self._blocks.clear()
        self._waiting.clear()
        self.hash_of[:] = [None] * len(self.hash_of)
        self.waits_in[:] = [None] * len(self.waits_in)

    def hash_all(self) -> None:
        """Hash every published block, for tests and audits."""
        while self._waiting:
            self._hash_behind(next(iter(self._waiting)))

    def audit(self) -> Iterator[str]:
        """Check that both directions agree."""
        listed = {
            block_id: digest
            for digest, blocks in self._blocks.items()
            for block_id in ((blocks,) if isinstance(blocks, int) else blocks)
        }
        waiting = {
            block_id: table
            for tables in self._waiting.values()
            for table in tables
            for block_id in table.block_ids[table.num_indexed : table.num_published]
            if self.waits_in[block_id] is table
        }
        for block_id, digest in enumerate(self.hash_of):
            if listed.get(block_id) != digest:
                yield f"block {block_id} is published under another hash than its own"
            if self.waits_in[block_id] is not waiting.get(block_id):
                yield f"block {block_id} is published in a table that does not hold it"

    def _begin_to_wait(self, table: BlockTable) -> None:
        table.is_waiting = True
        table.num_indexed = table.num_published
        self.num_waits += 1
        self._wait(table)

    def _wait(self, table: BlockTable) -> None:
        """Keep a table under the hash in front of its first block that is not hashed."""
        tables = self._waiting.setdefault(self._parent(table), [])
        tables.append(table)

    def _wait_no_more(self, table: BlockTable) -> None:
        table.is_waiting = False
        parent = self._parent(table)
        tables = self._waiting[parent]
        tables.remove(table)
        if not tables:
            del self._waiting[parent]

    def _parent(self, table: BlockTable) -> bytes:
        index = table.num_indexed
        return table.hashes(index)[index - 1] if index else table.seed

    def _hash_behind(self, parent: bytes) -> None:
        """Hash the blocks that wait behind a hash, those published first being first."""
        orders, waits_in = self._orders, self.waits_in
        tables = self._waiting.pop(parent)
        if len(tables) > 1:
            tables.sort(key=lambda table: orders[table.block_ids[table.num_indexed]])
        for table in tables:
            index = table.num_indexed
            block_id = table.block_ids[index]
            table.num_indexed = index + 1
            if waits_in[block_id] is table:
                waits_in[block_id] = None
                self._add(table.hashes(index + 1)[index], block_id)
                if table.num_left is not None:
                    table.num_left -= 1
            if index + 1 < table.num_published and table.num_left != 0:
                self._wait(table)
            else:
                table.is_waiting = False

    def _add(self, digest: bytes, block_id: int) -> None:
        self.hash_of[block_id] = digest
        others = self._blocks.setdefault(digest, block_id)
        if others == block_id:
            return
        if isinstance(others, int):
            self._blocks[digest] = others = {others: None}
        others[block_id] = None

    def _remove_waiting(self, block_id: int) -> None:
        table = self.waits_in[block_id]
        self.waits_in[block_id] = None
        if table is not None and table.num_left is not None:
            table.num_left -= 1
            if not table.num_left:
                self._wait_no_more(table)
