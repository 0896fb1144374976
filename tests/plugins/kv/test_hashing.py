"""A block is hashed when a lookup could find it, and decisions are those of hashing at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from batchwright import ModelOutput, Request, SamplingParams, Scheduler

NUM_OPERATIONS = 300


def world() -> tuple[Any, list[Any]]:
    """A manager of its own, and requests of few different tokens that share prefixes."""
    chance = random.Random(5)
    config = {"kv": {"num_blocks": 40, "block_size": 2}, "model": {"max_model_len": 64}}
    scheduler = Scheduler.from_config(config)
    scheduler.pause()
    for number in range(12):
        length = chance.randint(1, 24)
        tokens = [chance.choice((1, 1, 1, 2)) for _ in range(length)]
        scheduler.add_request(
            Request(
                request_id=f"r{number}",
                prompt_token_ids=tokens,
                cache_salt=chance.choice((None, None, "a")),
            )
        )
    return scheduler.kv_manager, [request.view for request in scheduler.requests.values()]


SOUND = ("allocate", "allocate", "give up", "release", "look", "ask")
FAILING = ("allocate", "allocate", "give up", "release", "look", "unpublish", "fail")


def act(
    kv: Any, views: list[Any], chance: random.Random, deeds: Sequence[str], detached: list[Any]
) -> Any:
    """Do something at random; return what can be seen of it."""
    view, what = chance.choice(views), chance.choice(deeds)
    if what == "allocate":
        hit = kv.lookup(view)
        held = kv.block_ids(view)
        known = len(held) * 2 or hit.num_tokens
        most = max(known, chance.randint(1, view.num_tokens))
        args = (hit,) if not held else ()
        return hit, kv.allocate(view, most, min(most, view.num_tokens), *args)
    if what == "give up":
        detached.append(kv.detach(view, "finished"))
        return detached[-1]
    if what == "release" and detached:
        kv.free(detached.pop(chance.randrange(len(detached))))
    if what == "unpublish":
        kv.unpublish(view, chance.randint(0, view.num_tokens))
    if what == "fail":
        kv.unpublish_blocks(kv.block_ids(view)[chance.randint(0, 3) :])
        detached.append(kv.detach(view, "finished"))
    if what == "look":
        return [kv.lookup(other) for other in chance.sample(views, 3)]
    if what == "ask":
        asked = chance.sample(views, 3)
        lengths = [kv.hit_length(other) for other in asked]
        assert lengths == [kv.lookup(other).num_tokens for other in asked]
        return lengths
    return None


@pytest.mark.parametrize("deeds", [SOUND, FAILING], ids=["sound", "failing"])
@pytest.mark.parametrize("seed", range(20))
def test_decisions_are_those_of_hashing_every_block_at_once(
    seed: int, deeds: Sequence[str]
) -> None:
    (lazy, its_views), (eager, views) = world(), world()
    chance, twin = random.Random(seed), random.Random(seed)
    detached: list[Any] = []
    others: list[Any] = []
    for _ in range(NUM_OPERATIONS):
        found = act(lazy, its_views, chance, deeds, detached)
        assert found == act(eager, views, twin, deeds, others)
        eager._index.hash_all()
        assert list(lazy._free) == list(eager._free)
        assert list(lazy.published_blocks()) == list(eager.published_blocks())
        assert list(lazy.audit({str(n): blocks for n, blocks in enumerate(detached)})) == []


def test_blocks_that_no_lookup_comes_to_are_not_hashed() -> None:
    """The second request shares one block of two: that one is hashed, and what follows it."""
    config = {"kv": {"num_blocks": 40, "block_size": 2}}
    scheduler = Scheduler.from_config(config)
    for name, tokens in {"a": [1] * 9, "b": [1, 1, 2, 2, 3]}.items():
        scheduler.add_request(Request(request_id=name, prompt_token_ids=tokens))
        scheduler.schedule() if name == "a" else None
    kv = scheduler.kv_manager
    table = kv.block_ids(scheduler.requests["a"].view)
    assert kv._index.hash_of.count(None) == 40
    assert kv.lookup(scheduler.requests["b"].view).block_ids == (table[0],)
    hashed = [block_id for block_id in table if kv._index.hash_of[block_id] is not None]
    assert hashed == table[:2]
    assert list(kv.published_blocks()) == table[:4]


def test_blocks_of_an_ended_request_wait_until_they_are_taken() -> None:
    """Its tokens are kept, the request is not."""
    scheduler = Scheduler.from_config({"kv": {"num_blocks": 6, "block_size": 2}})
    waiting = scheduler.kv_manager._index._waiting
    for name in ("a", "b"):
        params = SamplingParams(max_tokens=1)
        tokens = [ord(name)] * 10
        request = Request(request_id=name, prompt_token_ids=tokens, sampling_params=params)
        scheduler.add_request(request)
        plan = scheduler.schedule()
        (tables,) = waiting.values()
        assert [table.num_left for table in tables] == [None]
        scheduler.update_from_output(plan, ModelOutput([name], [[7]]))
        assert [(table.num_left, table._request) for table in tables] == [(5, None)]
        assert waiting == {bytes(32): tables}
