"""Conformance of KV managers and of their parts."""

from __future__ import annotations

import inspect
import os
import random
import subprocess
import sys
from itertools import islice
from typing import Any, ClassVar

from batchwright.protocols import KVManager
from batchwright.protocols.kv import NO_HIT, PrefixHit
from batchwright.request_view import RequestView
from batchwright.testing.conformance.decodes import DecodesConformance
from batchwright.testing.conformance.serving import ServingConformance

NUM_OPERATIONS = 400
_DIGEST = """
import importlib, runpy, sys
module, path, name = sys.argv[1:]
try:
    found = vars(importlib.import_module(module))
except ImportError:
    found = runpy.run_path(path)
cls = found[name]
print(cls(cls.Options(), None).digest(b"the same everywhere").hex())
"""


class KVConformance(DecodesConformance):
    """Check a KV manager: its records, its transactions, and lookups without side effects."""

    kind: ClassVar[str] = "kv"

    def test_allocation_is_a_transaction(self) -> None:
        """Random allocations and frees: a failure changes nothing, the records stay right."""
        kv, views = self._idle()
        chance = random.Random(11)
        for _ in range(NUM_OPERATIONS):
            view = chance.choice(views)
            if kv.block_ids(view) and chance.random() < 0.3:
                kv.free(kv.detach(view, "finished"))
            else:
                self._allocate(kv, view, chance)
            assert list(kv.audit({})) == []
        for view in views:
            kv.free(kv.detach(view, "finished"))
        assert kv.num_free_blocks == kv.num_usable_blocks
        assert kv.usage == 0

    def test_looking_changes_nothing(self) -> None:
        """``lookup``, ``hit_length`` and ``num_needed`` are free of side effects."""
        kv, views = self._idle()
        chance = random.Random(12)
        for _ in range(NUM_OPERATIONS // 4):
            self._allocate(kv, chance.choice(views), chance)
            before = _books(kv, views)
            hits = [kv.lookup(view) for view in views]
            assert hits == [kv.lookup(view) for view in views]
            free_views = [view for view in views if not kv.block_ids(view)]
            for view in free_views:
                assert kv.hit_length(view) == kv.lookup(view).num_tokens
                assert kv.num_needed(view, view.num_tokens) >= 0
            assert _books(kv, views) == before
            if chance.random() < 0.5:
                kv.free(kv.detach(chance.choice(views), "finished"))

    def test_hits_leave_a_token_to_compute(self) -> None:
        """A hit is at most all known tokens but one, and what was computed is found."""
        kv, views = self._idle()
        for view in views:
            hit = kv.lookup(view)
            if kv.allocate(view, view.num_tokens, view.num_tokens, hit) is None:
                continue
            kv.free(kv.detach(view, "finished"))
            found = kv.lookup(view)
            assert found.num_tokens < view.num_tokens
            assert len(set(found.block_ids)) == len(found.block_ids)

    def test_without_prefix_caching_nothing_is_hit(self) -> None:
        kv, views = self._idle(kv={"enable_prefix_caching": False})
        for view in views:
            if kv.allocate(view, view.num_tokens, view.num_tokens) is not None:
                kv.free(kv.detach(view, "finished"))
            assert kv.lookup(view) == NO_HIT
            assert kv.hit_length(view) == 0

    def test_detached_blocks_stay_out_of_the_pool(self) -> None:
        """Until they are freed: a step in flight may still write to them."""
        kv, views = self._idle()
        view = views[0]
        assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
        free = kv.num_free_blocks
        blocks = kv.detach(view, "finished")
        assert kv.block_ids(view) == []
        assert kv.num_free_blocks == free
        assert list(kv.audit({"detached": blocks})) == []
        kv.free(blocks)
        assert kv.num_free_blocks == kv.num_usable_blocks
        assert list(kv.audit({})) == []

    def test_unpublished_blocks_are_not_found(self) -> None:
        """A lookup finds no block of a failed step."""
        kv, views = self._idle()
        view = views[0]
        assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
        kv.unpublish(view, 0)
        kv.free(kv.detach(view, "finished"))
        assert kv.lookup(view).num_tokens == 0
        assert list(kv.audit({})) == []

    def test_unpublished_blocks_are_not_found_wherever_they_are(self) -> None:
        """Blocks whose step has failed are not found, be they held or free already."""
        kv, views = self._idle()
        view = views[0]
        for give_up_first in (True, False):
            assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
            blocks = kv.detach(view, "finished")
            if give_up_first:
                kv.free(blocks)
            kv.unpublish_blocks(blocks)
            assert not set(blocks) & set(kv.published_blocks())
            if not give_up_first:
                kv.free(blocks)
            assert kv.lookup(view).num_tokens == 0
            assert list(kv.audit({})) == []

    def test_published_blocks_are_those_that_lookups_find(self) -> None:
        kv, views = self._idle()
        view = views[0]
        assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
        kv.free(kv.detach(view, "finished"))
        assert set(kv.lookup(view).block_ids) <= set(kv.published_blocks())

    def test_audit_sees_what_is_released_twice(self) -> None:
        """A double free is reported, with prefixes cached or not."""
        kv, views = self._idle()
        view = views[0]
        assert kv.allocate(view, view.num_tokens, 0) is not None
        blocks = kv.detach(view, "finished")
        kv.free(blocks)
        kv.free(blocks)
        assert list(kv.audit({})) != []

    def test_prefix_cache_is_reset_only_when_idle(self) -> None:
        kv, views = self._idle()
        view = views[0]
        assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
        before = _books(kv, views)
        assert kv.reset_prefix_cache() is False
        assert _books(kv, views) == before
        kv.free(kv.detach(view, "finished"))
        assert kv.reset_prefix_cache() is True
        assert all(kv.lookup(view) == NO_HIT for view in views)

    def _allocate(self, kv: KVManager, view: RequestView, chance: random.Random) -> None:
        """One allocation, and all that is promised of it."""
        held = kv.block_ids(view)
        hit = NO_HIT if held else kv.lookup(view)
        least = max(1, hit.num_tokens + 1)
        num_tokens = chance.randint(least, max(least, view.num_tokens))
        needed, free = kv.num_needed(view, num_tokens, hit), kv.num_free_blocks
        before = _books(kv, [view])
        new = kv.allocate(view, num_tokens, chance.randint(0, num_tokens), hit)
        if new is None:
            assert needed > free, f"{needed} blocks were needed, {free} free, and it refused"
            assert _books(kv, [view]) == before, "a failed allocation changed something"
            return
        self._check_table(kv, view, num_tokens, hit)
        assert kv.num_free_blocks == free - needed
        assert kv.block_ids(view) == [*held, *hit.block_ids, *new]

    def _check_table(
        self, kv: KVManager, view: RequestView, num_tokens: int, hit: PrefixHit
    ) -> None:
        table, limits = kv.block_ids(view), kv.ctx.sizes
        assert len(table) * limits.block_size >= num_tokens
        assert len(set(table)) == len(table)
        assert all(0 <= block_id < limits.num_blocks for block_id in table)
        assert table[: len(hit.block_ids)] == list(hit.block_ids) or not hit.block_ids


class HasherConformance(ServingConformance):
    """Check a hasher: the same everywhere, and long enough to stand for equality."""

    kind: ClassVar[str] = "hasher"

    def test_digests_have_their_size(self) -> None:
        """At least 16 bytes, since equal hashes mean equal KV."""
        hasher = self.build()
        assert hasher.digest_size >= 16
        for data in (b"", b"a", bytes(4096)):
            digest = hasher.digest(data)
            assert isinstance(digest, bytes)
            assert len(digest) == hasher.digest_size

    def test_digests_tell_inputs_apart(self) -> None:
        hasher = self.build()
        inputs = [n.to_bytes(4, "little") * k for n in range(500) for k in (1, 2, 5)][1:]
        distinct = set(inputs)
        assert len({hasher.digest(data) for data in distinct}) == len(distinct)

    def test_digests_are_the_same_in_every_process(self) -> None:
        """Whatever the seed of Python's own hashes is."""
        cls = self.component
        expected = cls(cls.Options(), None).digest(b"the same everywhere").hex()
        command = [sys.executable, "-c", _DIGEST]
        for seed in ("1", "2"):
            done = subprocess.run(
                [*command, cls.__module__, inspect.getfile(cls), cls.__qualname__],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
            )
            assert done.stdout.strip() == expected, done.stderr


class EvictionConformance(ServingConformance):
    """Check an order of free blocks: each is there once, and blocks are taken in order."""

    kind: ClassVar[str] = "eviction"

    def test_blocks_are_free_once(self) -> None:
        """Random operations beside a set that says what should be there."""
        free, chance = self.build(), random.Random(13)
        inside: list[int] = []
        outside = list(range(1, 60))
        for _ in range(NUM_OPERATIONS):
            choice = chance.choice(("empty", "cached", "take", "take_many", "remove"))
            if choice in ("empty", "cached"):
                some = chance.sample(outside, min(len(outside), chance.randint(0, 6)))
                (free.add_empty if choice == "empty" else free.add_cached)(some)
                inside += some
            elif choice == "take_many":
                expected = list(islice(free, chance.randint(0, len(inside))))
                taken = free.take_many(len(expected))
                assert taken == expected, "take_many() differs from what iteration showed"
                inside = [block_id for block_id in inside if block_id not in taken]
            elif inside:
                block_id = chance.choice(inside)
                if choice == "take":
                    expected = next(iter(free))
                    block_id = free.take()
                    assert block_id == expected, "take() differs from what iteration showed"
                else:
                    free.remove(block_id)
                inside.remove(block_id)
            outside = [block_id for block_id in range(1, 60) if block_id not in inside]
            assert len(free) == len(inside)
            assert sorted(free) == sorted(inside)

    def test_first_added_is_first_taken(self) -> None:
        """Of blocks that are added together."""
        for add in ("add_empty", "add_cached"):
            free = self.build()
            getattr(free, add)([5, 3, 9])
            assert [free.take() for _ in range(3)] == [5, 3, 9]
            assert len(free) == 0


def _books(kv: KVManager, views: list[RequestView]) -> Any:
    """All that can be seen from outside."""
    tables = [(kv.block_ids(view), kv.lookup(view)) for view in views]
    return kv.num_free_blocks, tables, list(kv.audit({}))
