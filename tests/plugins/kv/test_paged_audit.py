"""The audit of the paged KV manager sees blocks that are not where they belong."""

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.testing import make_request


def kv_with_detached_blocks(*, caches):
    """A pool of 8 usable blocks, and three that a request has given up."""
    scheduler = scheduler_from_config(
        {
            "model": {"max_model_len": 32},
            "kv": {"num_blocks": 9, "block_size": 4, "enable_prefix_caching": caches},
        }
    )
    request = make_request("a", 10, 4)
    scheduler.add_request(request)
    scheduler.schedule()
    return scheduler.kv_manager, scheduler.kv_manager.detach(request.view)


@pytest.mark.parametrize("caches", [False, True])
def test_block_that_is_released_twice_is_seen(caches):
    kv, blocks = kv_with_detached_blocks(caches=caches)
    kv.free(blocks)
    assert list(kv.audit({})) == []
    kv.free(blocks[:1])
    assert len(list(kv.audit({}))) >= 1


@pytest.mark.parametrize(
    ("caches", "seen"),
    [(False, "the free queue holds the null block"), (True, "the null block has -1 references")],
)
def test_null_block_that_is_released_is_seen(caches, seen):
    kv, blocks = kv_with_detached_blocks(caches=caches)
    kv.free(blocks)
    kv.free([0])
    assert list(kv.audit({})) == [seen]


@pytest.mark.parametrize("block_id", [-1, 9])
def test_block_that_is_none_is_seen(block_id):
    kv, blocks = kv_with_detached_blocks(caches=True)
    found = list(kv.audit({"a": [*blocks, block_id]}))
    assert f"the table of 'a' holds block {block_id}, which is none" in found
