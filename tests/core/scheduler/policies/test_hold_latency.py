"""A control that shrinks prefill to hold a decode latency."""

from __future__ import annotations

from typing import Any


def run(b: Any, steps: int) -> list[dict[str, int]]:
    """Steps of 10 ms, and 1 ms more for each token."""
    granted = []
    for _ in range(steps):
        granted.append(b.step())
        b.scheduler.clock.advance(0.010 + 0.001 * sum(granted[-1].values()))
    return granted


def test_prefill_shrinks_while_somebody_decodes_too_slowly(load: Any) -> None:
    """At most 60 ms between tokens: 49 prompt tokens beside one decode."""
    b = load("hold_latency", {"target": 0.060, "step": 16}, budget=256)
    b.add("D", 8, 100)
    assert run(b, 2) == [{"D": 8}, {"D": 1}]
    b.add("P", 600, 1)
    # 256 is the cap until a step was slow; then it is halved until they are fast enough.
    sizes = [granted["P"] for granted in run(b, 12) if "P" in granted]
    assert sizes == [255, 128, 64, 32, 48, 64, 9]
    # After 64 (75 ms) it is 32, which took 43 ms: 16 more each time until 64 again.
    assert run(b, 1) == [{"D": 1}]
    b.drain()


def test_without_decodes_nothing_is_held_back(load: Any) -> None:
    b = load("hold_latency", {"target": 0.060, "step": 16}, budget=256)
    b.add("P", 600, 2)
    assert run(b, 3) == [{"P": 256}, {"P": 256}, {"P": 88}]
    b.drain()
    b.scheduler.clock.advance(100.0)  # idle time is nobody's latency
    b.add("Q", 300, 2)
    assert run(b, 2) == [{"Q": 256}, {"Q": 44}]


def test_latency_is_held(load: Any, make_bench: Any) -> None:
    """Most steps between two tokens of a decode keep to the target; without, few do."""

    def share_in_time(b: Any) -> float:
        b.add("D", 8, 400)
        run(b, 1)
        for i in range(12):
            b.add(f"P{i}", 600, 1)
        took = []
        while len(b.scheduler.requests) > 1:
            (granted,) = run(b, 1)
            took.append(0.010 + 0.001 * sum(granted.values()))
        return sum(time <= 0.060 for time in took) / len(took)

    assert share_in_time(load("hold_latency", {"target": 0.060, "step": 16}, budget=256)) > 0.6
    assert share_in_time(make_bench(budget=256)) < 0.1
