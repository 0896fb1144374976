"""Step controls: what a step may do, and when."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.exceptions import ConfigError


@pytest.fixture
def under(make_bench: Any) -> Any:
    """A bench under one control."""

    def make(control: str, bench: dict[str, Any] | None = None, **options: Any) -> Any:
        found = {
            "control": [{"use": control, **options}],
            "observer": [{"use": "invariants"}],
            "estimator": {
                "linear": {
                    "base": 0.01,
                    "per_token": 0.001,
                    "per_context_token": 0.0,
                    "per_attention": 0.0,
                }
            },
        }
        return make_bench(sections=found, **(bench or {}))

    return make


# -- delay -------------------------------------------------------------------------------------


def test_prompts_gather_for_a_share_of_the_last_prefill(under: Any) -> None:
    """The prefill took 4 s: with a factor of 0.5 the oldest waits for more than 2 s."""
    b = under("delay", factor=0.5)
    b.add("A", 40, 30)
    b.run(1, seconds=4.0)
    assert b.run(1, seconds=1.0) == [{"A": 1}]
    b.add("B", 10, 1)  # at 5 s
    b.scheduler.clock.advance(0.0)
    assert b.run(2, seconds=1.0) == [{"A": 1}] * 2
    b.add("C", 10, 1)
    assert b.run(1, seconds=0.5) == [{"A": 1}]  # 2 s is not more than 2 s
    assert b.run(1) == [{"A": 1, "B": 10, "C": 10}]


def test_nothing_is_delayed_while_nothing_runs(under: Any) -> None:
    b = under("delay", factor=100.0)
    b.add("A", 40, 1)
    b.run(1, seconds=4.0)
    b.add("B", 10, 1)
    assert b.step() == {"B": 10}


def test_idle_time_is_no_prefill_time(under: Any) -> None:
    """A ended with its only step; what comes 100 s later is not delayed by that."""
    b = under("delay", factor=1.0)
    b.add("A", 40, 1)
    b.run(1, seconds=100.0)
    b.add("B", 10, 9)
    b.run(2, seconds=0.0)
    b.add("C", 10, 1)
    b.scheduler.clock.advance(0.001)
    assert b.step() == {"B": 1, "C": 10}


def test_who_yields_waits_again_and_who_ends_does_not(under: Any) -> None:
    b = under("delay", bench={"usable": 6, "block_size": 4}, factor=0.0)
    control = b.scheduler.components.controls[0]
    b.add("A", 8, 12)
    b.add("B", 8, 12)
    b.add("C", 8, 12)
    assert control.earliest_arrival == 0.0
    b.scheduler.abort("C")
    b.run(1)
    assert control.earliest_arrival is None
    b.run(5)
    assert b.scheduler.requests["B"].num_preemptions == 1
    assert control.earliest_arrival == 0.0
    b.drain()
    assert control.earliest_arrival is None


# -- decode-first ------------------------------------------------------------------------------


def test_no_request_enters_until_half_the_batch_is_done(under: Any) -> None:
    b = under("decode-first", fraction=0.5, max_wait=1000.0)
    for i in range(4):
        b.add(f"r{i}", 4, 3 + 2 * i)
    b.run(2)
    b.add("late", 4, 1)
    # r0 ends after 3 steps, r1 after 5: then 2 of 4 are left.
    steps = b.run(4)
    assert ["late" in step for step in steps] == [False, False, False, True]


def test_no_request_waits_longer_than_the_bound(under: Any) -> None:
    b = under("decode-first", fraction=0.0, max_wait=2.0)
    b.add("A", 4, 50)
    b.run(2)
    b.add("B", 4, 1)
    assert b.run(3) == [{"A": 1}, {"A": 1}, {"A": 1, "B": 4}]


def test_a_first_request_enters_at_once(under: Any) -> None:
    b = under("decode-first", fraction=0.0)
    b.run(3)
    b.add("A", 4, 2)
    assert b.step() == {"A": 4}


# -- prefill-share -----------------------------------------------------------------------------


def test_prompts_share_a_step_with_decodes(under: Any) -> None:
    """A quarter of 256; before any request decodes, all of it."""
    b = under("prefill-share", bench={"budget": 256}, share=0.25)
    b.add("D", 300, 20)
    assert b.steps(2) == [{"D": 256}, {"D": 44}]
    b.step()
    b.add("P", 100, 1)
    b.add("Q", 100, 1)
    assert b.steps(2) == [{"D": 1, "P": 64}, {"D": 1, "P": 36, "Q": 28}]


@pytest.mark.slow
def test_decodes_are_served_in_every_step(under: Any) -> None:
    """Under the default and under a share: one p600 a step beside 8 decodes."""
    for control, first in (({"share": 1.0}, 504), ({"share": 0.5}, 256)):
        b = under("prefill-share", bench={"budget": 512, "usable": 20_000}, **control)
        for i in range(8):
            b.add(f"D{i}", 8, 300)
        b.steps(2)
        for step in range(200):
            b.add(f"P{step}", 600, 1)
            granted = b.step()
            assert all(granted[f"D{i}"] == 1 for i in range(8))
            if not step:
                assert granted["P0"] == first
            elif step == 1:
                assert granted["P0"] == min(600 - first, first)


# -- prefill-first -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "max_steps",
    [1, pytest.param(4, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)],
)
def test_decodes_wait_for_prompts_a_bounded_number_of_steps(under: Any, max_steps: int) -> None:
    """Eight decodes, one p600 a step: each decodes in every ``max_steps + 1``-th step."""
    bench = {"budget": 512, "usable": 20_000, "max_num_seqs": 512}
    b = under("prefill-first", bench=bench, max_steps=max_steps)
    for i in range(8):
        b.add(f"D{i}", 8, 300)
    b.steps(2)
    for step in range(200):
        b.add(f"P{step}", 600, 1)
        granted = b.step()
        decodes = [granted.get(f"D{i}", 0) for i in range(8)]
        assert decodes == [int(step % (max_steps + 1) == max_steps)] * 8
        assert sum(granted.values()) == 512
        if step < 2:
            assert granted["P0"] == (512, 88)[step]


def test_decodes_do_not_wait_for_prompts_that_get_nothing(under: Any) -> None:
    """P needs more blocks than D leaves: no decode waits for it, and no step is empty."""
    b = under("prefill-first", bench={"usable": 6, "block_size": 4})
    b.add("D", 8, 9)
    b.step()
    b.add("P", 20, 1)
    assert b.steps(3) == [{"D": 1}] * 3


def test_decodes_do_not_wait_for_absent_prompts(under: Any) -> None:
    b = under("prefill-first")
    b.add("D", 8, 9)
    assert b.steps(3) == [{"D": 8}, {"D": 1}, {"D": 1}]
    b.add("P", 10, 2)
    assert b.steps(3) == [{"P": 10}, {"D": 1, "P": 1}, {"D": 1}]


def test_paused_requests_are_no_prompts_that_decodes_wait_for(under: Any) -> None:
    """A request that returns with all its tokens has one new token, and gets it at once."""
    b = under(
        "prefill-first", bench={"policy": "srpt", "max_num_seqs": 1, "usable": 100}, max_steps=2
    )
    b.add("long", 8, 6)
    b.steps(2)
    b.add("short", 8, 2)
    assert b.steps(4) == [{"short": 8}, {"short": 1}, {"long": 1}, {"long": 1}]


# -- concurrent-prefills -----------------------------------------------------------------------


def test_prompts_are_computed_one_after_the_other(under: Any) -> None:
    b = under("concurrent-prefills", bench={"budget": 100})
    b.add("A", 150, 3)
    b.add("B", 120, 3)
    b.add("C", 10, 3)
    steps = [{"A": 100}, {"A": 50}, {"A": 1, "B": 99}, {"A": 1, "B": 21}, {"B": 1, "C": 10}]
    assert b.steps(5) == steps
    b.drain()
    assert b.scheduler.components.controls[0].computing == {}


def test_as_many_as_are_allowed_are_computed_at_a_time(under: Any) -> None:
    """The first two leave room for a third, which is not let in."""
    b = under("concurrent-prefills", bench={"budget": 100}, requests=2)
    for name in "ABC":
        b.add(name, 30, 2)
    assert b.step() == {"A": 30, "B": 30}
    assert b.step() == {"A": 1, "B": 1, "C": 30}


def test_who_is_preempted_is_computed_no_longer(under: Any) -> None:
    b = under("concurrent-prefills", bench={"usable": 6, "block_size": 4}, requests=2)
    control = b.scheduler.components.controls[0]
    b.add("A", 8, 12)
    preempted = b.add("B", 8, 12)
    b.steps(7)
    assert preempted.num_preemptions == 1
    assert control.computing == {}
    b.drain()
    assert control.computing == {}


# -- latency-target ----------------------------------------------------------------------------


def test_prefill_gets_what_a_step_has_time_for(under: Any) -> None:
    """10 ms, and 1 ms a token: 49 prompt tokens beside one decode in 60.5 ms, 47 beside 3."""
    b = under("latency-target", bench={"budget": 256}, target=0.0605)
    b.add("D", 200, 100)
    assert b.step() == {"D": 200}  # no request decodes
    b.add("P", 100, 100)
    assert b.steps(3) == [{"D": 1, "P": 49}, {"D": 1, "P": 49}, {"D": 1, "P": 2}]
    b.add("Q", 60, 100)
    assert b.steps(2) == [{"D": 1, "P": 1, "Q": 48}, {"D": 1, "P": 1, "Q": 12}]
    b.add("R", 60, 2)
    assert b.step() == {"D": 1, "P": 1, "Q": 1, "R": 47}


def test_some_prefill_goes_on_however_late_it_is(under: Any) -> None:
    b = under("latency-target", bench={"budget": 256}, target=0.005, minimum=8)
    b.add("D", 8, 100)
    b.step()
    b.add("P", 20, 1)
    assert b.steps(3) == [{"D": 1, "P": 8}, {"D": 1, "P": 8}, {"D": 1, "P": 4}]


@pytest.mark.parametrize(
    ("control", "option", "value", "expected"),
    [
        ("delay", "factor", -1.0, "a number >= 0 and < inf"),
        ("decode-first", "fraction", 1.0, "a number >= 0 and < 1"),
        ("prefill-share", "share", 0.0, "a number > 0 and <= 1"),
        ("prefill-first", "max_steps", 0, "a number >= 1"),
        ("concurrent-prefills", "requests", 0, "a number >= 1"),
        ("latency-target", "target", 0.0, "a number > 0 and < inf"),
        ("latency-target", "minimum", 0, "a number >= 1"),
    ],
)
def test_options_are_checked(
    under: Any, control: str, option: str, value: float, expected: str
) -> None:
    message = rf"control\[0\].{option}: expected {expected}, got {value}"
    with pytest.raises(ConfigError, match=message):
        under(control, **{option: value})
