"""Charts along an option: its values are on the x axis, in groups of equal other values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from batchwright_lab.comparison.grid import Grid
from batchwright_lab.comparison.report.along import Along
from batchwright_lab.comparison.summary import Summary, summarize

from .making import outcome


def varied(
    values: Mapping[str, Mapping[str, str]], figures: Mapping[tuple[str, str], float]
) -> Summary:
    """A summary of cells by policy and variation, at one rate, of one seed."""
    cells = [
        attrs.evolve(outcome(policy, 1.0, e2e_mean=mean), variation=variation)
        for (policy, variation), mean in figures.items()
    ]
    policies = tuple(dict.fromkeys(policy for policy, _ in figures))
    grid = Grid(policies, tuple(values), (1.0,), (0,), (), tuple(figures), values)
    return summarize(grid, cells, "e2e_mean")


def test_a_policy_that_the_option_does_not_concern_is_level() -> None:
    values = {"": {}, "x=8": {"policy.b.x": "8"}, "x=2": {"policy.b.x": "2"}}
    (along,) = Along.of(varied(values, {("a", ""): 3.0, ("b", "x=8"): 4.0, ("b", "x=2"): 5.0}))
    (chart,) = along.highlights()
    assert (along.option, along.others, chart.name) == ("policy.b.x", "", "E2E mean, s")
    assert [(line.name, line.points) for line in chart.lines] == [
        ("a", [(2.0, 3.0), (8.0, 3.0)]),
        ("b", [(2.0, 5.0), (8.0, 4.0)]),
    ]
    assert (chart.x_name, chart.x_ticks, chart.log_x) == ("policy.b.x", [2.0, 8.0], False)


def test_values_that_double_lie_on_a_logarithmic_axis() -> None:
    values = {f"x={n}": {"kv.x": str(n)} for n in (1, 2, 4, 8)}
    (along,) = Along.of(varied(values, {("a", label): 1.0 for label in values}))
    assert along.highlights()[0].log_x


@pytest.mark.parametrize("texts", [("lru", "fifo"), ("true", "false"), ("inf", "1")])
def test_words_stay_in_their_order(texts: tuple[str, str]) -> None:
    values = {f"x={text}": {"kv.x": text} for text in texts}
    (along,) = Along.of(varied(values, {("a", label): 1.0 for label in values}))
    (chart,) = along.highlights()
    assert chart.x_ticks == list(texts)
    assert chart.lines[0].points == [(texts[0], 1.0), (texts[1], 1.0)]


def test_two_options_have_a_group_for_each_value_of_the_other() -> None:
    values = {f"x={x}, y={y}": {"kv.x": x, "kv.y": y} for x in "12" for y in "34"}
    found = Along.of(varied(values, {("a", label): 1.0 for label in values}))
    assert [(along.option, along.others) for along in found] == [
        ("kv.x", "y=3"),
        ("kv.x", "y=4"),
        ("kv.y", "x=1"),
        ("kv.y", "x=2"),
    ]


def test_one_value_is_nothing_to_draw_along() -> None:
    assert Along.of(varied({"x=1": {"kv.x": "1"}}, {("a", "x=1"): 1.0})) == []
