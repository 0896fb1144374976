"""Outcomes and summaries as tests make them."""

from __future__ import annotations

from typing import Any

from batchwright_lab.comparison.grid import Grid
from batchwright_lab.comparison.outcome import Outcome
from batchwright_lab.comparison.summary import Summary, summarize


def outcome(
    policy: str,
    rate: float | None = None,
    seed: int = 0,
    *,
    fault: str = "",
    notes: tuple[str, ...] = (),
    record: dict[str, Any] | None = None,
    **figures: float,
) -> Outcome:
    return Outcome(
        policy, "", rate, seed, fault, notes, figures, {}, {}, {}, {}, record or {"fault": None}
    )


def summary(*outcomes: Outcome, by: str = "e2e_mean", num_cells: int | None = None) -> Summary:
    def column(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(getattr(found, name) for found in outcomes))

    cells: Any = (None,) * (num_cells or len(outcomes))
    grid = Grid(column("policy"), ("",), column("rate"), column("seed"), cells)
    return summarize(grid, outcomes, by)
