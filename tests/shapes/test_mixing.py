"""Prompts beside decodes: what the one gains, the other pays."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest


@pytest.fixture
def run(simulate: Any, mixed: Any) -> Any:
    def make(budget: int = 2048, control: dict[str, Any] | None = None) -> Any:
        sections = {"control": [control]} if control else {}
        return simulate(
            mixed(400, 4.0), max_num_seqs=64, max_num_batched_tokens=budget, sections=sections
        )

    return make


def p99(values: list[float]) -> float:
    return values[int(0.99 * len(values))]


def disturbed(result: Any) -> int:
    """Tokens that waited for a step with a prompt in it: half as long again as without."""
    return sum(gap > 0.03 for gap in result.gaps())


def test_smaller_chunks_cut_p99_tbt_and_raise_ttft_a_little(run: Any) -> None:
    """Measured: 225, 124, 73, 48 ms of p99, 144, 157, 191, 284 ms of mean TTFT."""
    runs = [run(budget) for budget in (2048, 1024, 512, 256)]
    tails, ttfts = [p99(r.gaps()) for r in runs], [mean(r.ttfts()) for r in runs]
    assert tails == sorted(tails, reverse=True)
    assert ttfts == sorted(ttfts)
    assert tails[-1] < 0.3 * tails[0]
    assert ttfts[1] < 1.2 * ttfts[0]


def test_prefill_share_moves_between_both(run: Any) -> None:
    shares = (1.0, 0.5, 0.25, 0.1)
    runs = [run(control={"use": "prefill-share", "share": share}) for share in shares]
    tails, ttfts = [p99(r.gaps()) for r in runs], [mean(r.ttfts()) for r in runs]
    assert tails == sorted(tails, reverse=True)
    assert ttfts == sorted(ttfts)


def test_latency_target_holds_p99_tbt_with_less_ttft_than_a_fixed_chunk(run: Any) -> None:
    """60 ms; the chunk that holds it as well, whatever the load, makes prompts wait longer."""
    target = run(control={"use": "latency-target", "target": 0.060})
    chunk = run(budget=372)
    assert p99(target.gaps()) <= 0.0601
    assert p99(chunk.gaps()) <= 0.0601
    assert mean(target.ttfts()) < mean(chunk.ttfts())


def test_decode_first_decodes_undisturbed_and_prompts_wait(run: Any) -> None:
    """Prompts come in bursts, so that fewer of the steps between tokens compute any."""
    free, first = run(), run(control={"use": "decode-first"})
    assert disturbed(first) < 0.8 * disturbed(free)
    assert mean(first.ttfts()) > 2 * mean(free.ttfts())
    assert first.ttfts()[-1] < 2.0 + 2 * free.ttfts()[-1]  # max_wait bounds it


def test_delay_gathers_prompts(run: Any) -> None:
    """Fewer decodes wait for a prompt, each of which waits longer."""
    free, delayed = run(), run(control={"use": "delay", "factor": 2.0})
    assert disturbed(delayed) < disturbed(free)
    assert mean(delayed.ttfts()) > mean(free.ttfts())


def test_concurrent_prefills_end_the_first_sooner(simulate: Any, mixed: Any) -> None:
    """Two long prompts at once under a long-prefill limit: half each, or one by one."""

    def first_token(control: list[dict[str, Any]]) -> float:
        arrivals = mixed(2, 1000.0)
        for arrival in arrivals:
            arrival.prompt_token_ids = [arrival.prompt_token_ids[0], *[1] * 6000]
        sections = {"control": control, "limit": [{"use": "long-prefill", "threshold": 512}]}
        times = simulate(arrivals, max_num_batched_tokens=1024, sections=sections).ttfts()
        return float(times[0])

    assert first_token([{"use": "concurrent-prefills"}]) <= first_token([])


def test_prefill_first_is_the_other_end(run: Any) -> None:
    """Prompts wait for no decode, decodes for up to ``max_steps`` steps of prompts.

    Measured, without it, with 1 and with 8 steps: 144.1, 141.9, 139.5 ms of mean TTFT; 225,
    246, 255 ms of p99 between tokens; 0.23, 0.45, 1.46 s at most.
    """
    runs = [run(), *(run(control={"use": "prefill-first", "max_steps": n}) for n in (1, 8))]
    ttfts, gaps = [mean(r.ttfts()) for r in runs], [r.gaps() for r in runs]
    assert ttfts == sorted(ttfts, reverse=True)
    assert [p99(g) for g in gaps] == sorted(p99(g) for g in gaps)
    longest_step = gaps[0][-1]
    assert gaps[1][-1] < (1 + 1.1) * longest_step
    assert gaps[2][-1] < (8 + 1.1) * longest_step
