"""Options that exclude each other are refused with one message that names them."""

from __future__ import annotations

import pytest

from batchwright.config import Config
from batchwright.config.checks import check_combinations
from batchwright.exceptions import ConfigError


def refusal(**sections: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(sections)
    return str(caught.value)


def test_prompt_that_no_step_can_hold_is_refused():
    """B23: without chunks a step must hold the longest prompt."""
    message = refusal(scheduler={"enable_chunked_prefill": False})

    assert "with enable_chunked_prefill = false" in message
    assert "max_num_batched_tokens = 2048" in message
    assert "max_model_len = 8192" in message


def test_cap_below_the_step_counts_for_prompts_too():
    """B23: another cap below max_num_batched_tokens is checked the same way."""
    message = refusal(
        scheduler={"enable_chunked_prefill": False, "max_num_scheduled_tokens": 1024},
        model={"max_model_len": 2000},
    )

    assert "max_num_scheduled_tokens = 1024 (and max_num_batched_tokens = 2048)" in message
    assert "max_model_len = 2000" in message


def test_prompt_check_waits_for_the_model_and_is_repeated():
    config = Config.from_dict(
        {"scheduler": {"enable_chunked_prefill": False}, "model": {"path": "m"}}
    )

    check_combinations(config, 2048)
    with pytest.raises(ConfigError, match="max_model_len = 2049"):
        check_combinations(config, 2049)


def test_step_smaller_than_the_requests_is_refused():
    """B60: max_num_batched_tokens < max_num_seqs."""
    message = refusal(scheduler={"max_num_batched_tokens": 8, "max_num_seqs": 9})

    assert message.startswith("scheduler.max_num_batched_tokens: ")
    assert "max_num_batched_tokens = 8" in message
    assert "max_num_seqs = 9" in message


def test_lookahead_that_fills_the_step_is_refused():
    """B60: drafts * max_num_seqs > max_num_batched_tokens."""
    message = refusal(scheduler={"num_lookahead_tokens": 9})

    assert message.startswith("scheduler.num_lookahead_tokens: ")
    assert "num_lookahead_tokens = 9 of each of max_num_seqs = 256" in message
    assert "max_num_batched_tokens = 2048" in message
    assert Config.from_dict({"scheduler": {"num_lookahead_tokens": 8}})


def test_cap_above_the_step_is_refused():
    message = refusal(scheduler={"max_num_scheduled_tokens": 2049})

    assert "max_num_scheduled_tokens = 2049 exceeds max_num_batched_tokens = 2048" in message


def test_pipeline_that_fills_a_request_is_refused():
    message = refusal(
        scheduler={"pipeline_depth": 2, "num_lookahead_tokens": 1}, model={"max_model_len": 4}
    )

    assert message.startswith("scheduler.pipeline_depth: pipeline_depth = 2 steps")
    assert "num_lookahead_tokens = 1" in message
    assert "max_model_len = 4" in message


def test_cache_size_given_twice_is_refused():
    message = refusal(kv={"num_blocks": 10, "memory": "1 GiB"})

    assert "num_blocks = 10 and memory = '1 GiB' both say how large the cache is" in message


def test_sampling_defaults_are_checked_like_a_request():
    expected = "sampling.min_tokens: min_tokens (20) exceeds max_tokens (16)"

    assert expected == refusal(sampling={"min_tokens": 20})


def test_all_combinations_are_reported_at_once():
    message = refusal(
        scheduler={"enable_chunked_prefill": False, "max_num_batched_tokens": 8, "max_num_seqs": 9},
        kv={"num_blocks": 10, "memory": "1 GiB"},
    )

    assert message.startswith("3 problems:")
