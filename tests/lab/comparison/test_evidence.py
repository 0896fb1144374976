"""Charts beside one another: each group has the policies that its values do not concern."""

from __future__ import annotations

import attrs

from batchwright_lab.comparison.grid import Grid
from batchwright_lab.comparison.report.evidence import Evidence
from batchwright_lab.comparison.summary import summarize

from .making import outcome


def test_a_policy_that_nothing_varies_for_stands_in_every_group() -> None:
    pairs = (("a", ""), ("b", "x=1"), ("b", "x=2"))
    cells = [attrs.evolve(outcome(p, 1.0, e2e_mean=2), variation=v) for p, v in pairs]
    values = {"": {}, "x=1": {"policy.b.x": "1"}, "x=2": {"policy.b.x": "2"}}
    grid = Grid(("a", "b"), ("", "x=1", "x=2"), (1.0,), (0,), (), pairs, values)
    found = Evidence.of(summarize(grid, cells, "e2e_mean"))
    assert [(e.variation, [c.label for _, c in e.contenders]) for e in found] == [
        ("x=1", ["a", "b (x=1)"]),
        ("x=2", ["a", "b (x=2)"]),
    ]
