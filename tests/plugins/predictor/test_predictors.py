"""Predictors: what they learn, what they know, how good they are."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.exceptions import ConfigError
from batchwright.testing import Driver, make_request
from batchwright_plugins.predictor.score import Score, kendall_tau


def scheduler_with(**options: Any) -> Any:
    return scheduler_from_config(
        {
            "scheduler": {"predictor": "class-average"},
            "predictor": {"class-average": options} if options else {},
        }
    )


def ask(scheduler: Any, request: Any) -> float:
    (estimate,) = scheduler.components.predictor.output_tokens([request.view])
    return estimate


def test_class_average_learns_from_what_ends() -> None:
    """By client; a class without known requests has the average of all."""
    scheduler = scheduler_with(by="client")
    driver = Driver(scheduler)
    first = make_request("first", 4, 100, client="a")
    driver.add(first)
    assert ask(scheduler, first) == 100  # nothing is known but its cap
    driver.abort("first")  # an abort says nothing about lengths
    for name, client, length in (("1", "a", 10), ("2", "a", 20), ("3", "b", 90)):
        driver.add(make_request(name, 4, length, client=client))
    driver.finish()
    for client, expected in (("a", 15.0), ("b", 90.0), ("c", 40.0), (None, 40.0)):
        request = make_request(f"new {client}", 4, 500, client=client)
        assert ask(scheduler, request) == expected
    assert scheduler.components.predictor.summary()["predicted_requests"] == 3


def test_class_average_is_by_prompt_length_and_forgets() -> None:
    scheduler = scheduler_with(memory=2.0)
    driver = Driver(scheduler)
    for number, (prompt, length) in enumerate([(9, 10), (15, 10), (12, 40), (100, 7)]):
        driver.add(make_request(str(number), prompt, length))
        driver.finish()
    assert ask(scheduler, make_request("x", 8, 500)) == 25.0  # 8 to 15 tokens: (10 + 40) / 2
    assert ask(scheduler, make_request("y", 64, 500)) == 7.0


def test_estimate_is_never_less_than_what_is_out() -> None:
    scheduler = scheduler_with()
    driver = Driver(scheduler)
    driver.add(make_request("short", 4, 2))
    driver.finish()
    longer = make_request("longer", 4, 50)
    driver.add(longer)
    for _ in range(6):
        driver.turn()
    assert longer.num_output_tokens == 6
    assert ask(scheduler, longer) == 7


@pytest.mark.parametrize(
    ("pairs", "tau"),
    [
        ([(1, 1), (2, 2), (3, 3)], 1.0),
        ([(1, 3), (2, 2), (3, 1)], -1.0),
        ([(1, 1), (2, 3), (3, 2)], 1 / 3),
        ([(1, 1), (1, 2), (2, 3)], 2 / (2 * 3) ** 0.5),
        ([(1, 1), (1, 2)], None),
        ([], None),
    ],
)
def test_kendall_tau(pairs: list[tuple[float, float]], tau: float | None) -> None:
    assert kendall_tau(pairs) == (tau if tau is None else pytest.approx(tau))


def test_score_keeps_a_sample_of_bounded_size() -> None:
    score = Score(random.Random(0))
    for number in range(5000):
        score.add(number, number)
    summary = score.summary()
    assert summary["predicted_requests"] == 5000
    assert summary["kendall_tau"] == 1.0
    assert summary["mean_relative_error"] == 0.0
    assert len(score._pairs) == 1000


def test_a_score_without_scipy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of a run, not when its summary is due."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ConfigError, match=r"takes scipy, which is missing: .*'\.\[lab\]'"):
        Score(random.Random(0))
