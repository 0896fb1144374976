"""The paged KV manager: fixed-size blocks, shared by prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from batchwright.exceptions import ConfigError
from batchwright.protocols import Eviction, KVManager, PrefixHit
from batchwright.protocols.kv import NO_HIT, DetachCause
from batchwright_plugins.kv.block_table import BlockTable, KnownHashes
from batchwright_plugins.kv.prefix_index import PrefixIndex

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["PagedKV"]

MIN_DIGEST_SIZE = 16

_MOST_KNOWN_HASHES: Final = 1 << 16
"""Hashes of blocks in prompts that are kept for prompts which begin alike (15 MB)."""


@define
class Held:
    """The block table of a request."""

    table: BlockTable | None = None


class PagedKV(KVManager):
    """Blocks of ``block_size`` tokens, reference-counted, found by their prefix.

    A full block is identified by the hash chain over all tokens up to its end and by the other
    inputs of its content (cache salt, adapter, images). It is published when the step that
    fills it is planned, so that a request later in the same step can share it. It is hashed
    when a lookup could find it. A block that no request uses is free and can still be found,
    until it is taken for another use.

    Block 0 is reserved: padded block tables point to it. At its end a request returns its last
    blocks first; blocks without a hash go to the front of the free queue, hashed ones to its
    back. All of this follows vLLM V1, block id for block id.
    """

    name = "paged"
    Data = Held

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        sizes = ctx.sizes
        self._block_size = sizes.block_size
        self._num_blocks = sizes.num_blocks
        self._caches = sizes.enable_prefix_caching
        self._hasher = ctx.components["hasher"]
        self._free: Eviction = ctx.components["eviction"]
        if self._hasher.digest_size < MIN_DIGEST_SIZE:
            raise ConfigError(
                f"{self._hasher.ctx.label} has digests of {self._hasher.digest_size} "
                f"bytes; at least {MIN_DIGEST_SIZE} are needed, since equal hashes mean equal KV",
                path="kv.hasher",
            )
        self._references = [0] * self._num_blocks
        self._index = PrefixIndex(self._num_blocks)
        self._holders: dict[str, BlockTable] = {}
        self._known_hashes: KnownHashes = {}
        self._free.add_empty(range(1, self._num_blocks))

    @property
    def num_usable_blocks(self) -> int:
        return self._num_blocks - 1

    @property
    def num_free_blocks(self) -> int:
        return len(self._free)

    def lookup(self, request: RequestView) -> PrefixHit:
        if not self._caches:
            return NO_HIT
        if len(self._known_hashes) > _MOST_KNOWN_HASHES:
            self._known_hashes.clear()
        # The last token is computed in any case: its logits are needed.
        most = (request.num_tokens - 1) // self._block_size
        found = self._index.find(self._table(request), most)
        if not found:
            return NO_HIT
        references = self._references
        idle = sum(1 for block_id in found if not references[block_id])
        return PrefixHit(len(found) * self._block_size, tuple(found), idle)

    def hit_length(self, request: RequestView) -> int:
        if not self._caches:
            return 0
        most = (request.num_tokens - 1) // self._block_size
        return self._index.hit_length(self._table(request), most) * self._block_size

    def num_needed(self, request: RequestView, num_tokens: int, hit: PrefixHit = NO_HIT) -> int:
        held = len(self._table(request).block_ids) + len(hit.block_ids)
        return max(0, -(-num_tokens // self._block_size) - held) + hit.num_idle_blocks

    def allocate(
        self, request: RequestView, num_tokens: int, num_final_tokens: int, hit: PrefixHit = NO_HIT
    ) -> list[int] | None:
        table = self._table(request)
        held = len(table.block_ids) + len(hit.block_ids)
        num_new = -(-num_tokens // self._block_size) - held
        if max(0, num_new) + hit.num_idle_blocks > len(self._free):
            return None
        if hit.block_ids:
            self._adopt(table, hit.block_ids)
        new = self._take(num_new) if num_new > 0 else []
        if new:
            table.block_ids += new
        if table.block_ids:
            self._holders[request.request_id] = table
        if self._caches:
            num_full = num_final_tokens // self._block_size
            if num_full > table.num_published:
                self._index.publish(table, num_full)
        return new

    def allocate_decodes(
        self, growing: Sequence[RequestView], filling: Sequence[RequestView]
    ) -> list[list[int]]:
        return [[block_id] for block_id in self._go_on(growing, filling)]

    def fast_forward_decodes(
        self, growing: Sequence[RequestView], filling: Sequence[RequestView]
    ) -> None:
        # Blocks are taken in the same order as step by step. Publishing may come after all
        # of it: what is published is in use, what is taken is not.
        self._go_on(growing, filling)

    def block_ids(self, request: RequestView) -> list[int]:
        return self._table(request).block_ids.copy()

    def num_own_blocks(self, request: RequestView) -> int:
        block_ids, references = self._table(request).block_ids, self._references
        if not self._caches:  # nothing is shared, and references are not counted
            return len(block_ids)
        return sum(references[block_id] == 1 for block_id in block_ids)

    def detach(self, request: RequestView, cause: DetachCause) -> list[int]:
        table = self._table(request)
        block_ids = table.block_ids
        if table.is_waiting:
            self._index.give_up(table)
            self.ctx.data(request).table = None
        else:
            table.block_ids = []
            table.num_published = table.num_indexed = 0
        self._holders.pop(request.request_id, None)
        return block_ids

    def free(self, block_ids: Sequence[int]) -> None:
        if not self._caches:  # nothing is shared, nothing worth keeping
            self._free.add_empty(block_ids[::-1])
            return
        references, hash_of, waits_in = self._references, self._index.hash_of, self._index.waits_in
        empty: list[int] = []
        cached: list[int] = []
        for block_id in reversed(block_ids):
            references[block_id] = count = references[block_id] - 1
            if not count:
                is_empty = hash_of[block_id] is None and waits_in[block_id] is None
                (empty if is_empty else cached).append(block_id)
        self._free.add_empty(empty)
        self._free.add_cached(cached)

    def unpublish(self, request: RequestView, num_tokens: int) -> None:
        self._index.take_back(self._table(request), num_tokens // self._block_size)

    def unpublish_blocks(self, block_ids: Sequence[int]) -> None:
        self._index.remove(block_ids)

    def published_blocks(self) -> Iterator[int]:
        return self._index.published()

    def reset_prefix_cache(self) -> bool:
        if len(self._free) != self.num_usable_blocks:
            return False
        self._index.clear()
        return True

    def forget(self, request: RequestView) -> None:
        # Table and view hold one another: they would wait for the garbage collector.
        self.ctx.drop_data(request)

    def audit(self, tables: dict[str, list[int]]) -> Iterator[str]:
        counted = [0] * self._num_blocks
        held = {name: table.block_ids for name, table in self._holders.items()}
        for name, block_ids in (*held.items(), *tables.items()):
            yield from self._audit_ids(f"the table of {name!r}", block_ids)
            for block_id in block_ids:
                if 0 < block_id < self._num_blocks:
                    counted[block_id] += 1
            if len(set(block_ids)) != len(block_ids):
                yield f"the table of {name!r} holds a block twice: {block_ids}"
        free = list(self._free)
        yield from self._audit_ids("the free queue", free)
        if self._references[0]:
            yield f"the null block has {self._references[0]} references"
        if len(set(free)) != len(free):
            yield "the free queue holds a block twice"
        if len(free) != len(self._free):
            yield f"the free queue counts {len(self._free)} blocks and holds {len(free)}"
        yield from self._audit_references(counted, set(free))
        yield from self._index.audit()

    def _audit_ids(self, where: str, block_ids: Sequence[int]) -> Iterator[str]:
        for block_id in block_ids:
            if not 0 < block_id < self._num_blocks:
                what = "the null block" if block_id == 0 else f"block {block_id}, which is none"
                yield f"{where} holds {what}"

    def _audit_references(self, counted: list[int], free: set[int]) -> Iterator[str]:
        counts = self._references if self._caches else counted  # none are kept without sharing
        for block_id in range(1, self._num_blocks):
            references = counts[block_id]
            if references != counted[block_id] or (references > 1 and not self._caches):
                yield (
                    f"block {block_id} has {references} references, "
                    f"{counted[block_id]} tables hold it"
                )
            if (block_id in free) is not (references == 0):
                where = "in" if block_id in free else "not in"
                yield (f"block {block_id} with {references} references is {where} the free queue")

    def _go_on(self, growing: Sequence[RequestView], filling: Sequence[RequestView]) -> list[int]:
        """Append a block to each of the growing, publish the filling; what was appended."""
        data = self.ctx.data
        new = self._take(len(growing)) if growing else []
        for request, block_id in zip(growing, new, strict=True):
            data(request).table.block_ids.append(block_id)
        if self._caches:
            self._index.publish_next([data(request).table for request in filling])
        return new

    def _table(self, request: RequestView) -> BlockTable:
        held: Held = self.ctx.data(request)
        if held.table is None:
            held.table = BlockTable(request, self._hasher, self._block_size, self._known_hashes)
        return held.table

    def _adopt(self, table: BlockTable, block_ids: Sequence[int]) -> None:
        for block_id in block_ids:
            if not self._references[block_id]:
                self._free.remove(block_id)
            self._references[block_id] += 1
        table.block_ids += block_ids
        table.num_published = table.num_indexed = len(table.block_ids)

    def _take(self, count: int) -> list[int]:
        """Free blocks, emptied; there are so many."""
        block_ids = self._free.take_many(count)
        if self._caches:
            self._index.remove(block_ids)
            references = self._references
            for block_id in block_ids:
                references[block_id] = 1
        return block_ids
