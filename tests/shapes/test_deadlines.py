"""Deadlines past saturation: a cliff, or a slope."""

from __future__ import annotations

import random
from typing import Any

from batchwright.protocols import Arrival

TARGETS = {"chat": 1.0, "doc": 6.0}
"""Seconds to the first token. Saturation is at about 9.8 requests a second."""


def classes(rate: float) -> list[Arrival]:
    chance, time, arrivals = random.Random(0), 0.0, []
    for number in range(600):
        time += chance.expovariate(rate)
        tokens = [1000 + number, *[1] * (chance.randint(200, 1200) - 1)]
        length, name = chance.randint(5, 40), "chat" if number % 2 else "doc"
        arrivals.append(
            Arrival(time=time, prompt_token_ids=tokens, num_output_tokens=length, slo_class=name)
        )
    return arrivals


def in_time(simulate: Any, policy: str, rate: float, **options: Any) -> float:
    run = simulate(
        classes(rate),
        policy=policy,
        max_num_seqs=16,
        max_num_batched_tokens=1024,
        sections={"policy": {policy: options}},
    )
    share: float = run.share_in_time(TARGETS)
    return share


def test_edf_collapses_past_saturation_and_relegation_makes_it_a_slope(simulate: Any) -> None:
    """Measured at 10, 12, 20 a second: 100, 35, 14 %; relegating 100, 86, 50 %."""
    rates = (10.0, 12.0, 20.0)
    plain = [in_time(simulate, "edf", r, targets=TARGETS, relegate=False) for r in rates]
    options = {"targets": TARGETS, "prefill_time": 1.2e-4}
    relegating = [in_time(simulate, "edf", r, **options) for r in rates]
    assert plain[0] > 0.99
    assert plain[1] < 0.5 * plain[0]  # a fifth more load, and most targets are missed
    assert relegating[0] > 0.99
    assert all(r > 2 * p for r, p in zip(relegating[1:], plain[1:], strict=True))
    assert relegating == sorted(relegating, reverse=True)
    # What could be served in time at best: capacity over load.
    assert all(r > 0.85 * 9.8 / rate for r, rate in zip(relegating, rates, strict=True))


def test_edf_meets_more_than_fcfs_below_saturation(simulate: Any) -> None:
    fcfs = in_time(simulate, "fcfs", 10.0)
    assert in_time(simulate, "edf", 10.0, targets=TARGETS) > 1.1 * fcfs
