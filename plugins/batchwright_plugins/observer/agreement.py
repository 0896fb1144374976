"""The agreement of two policies, over time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import define, field

__all__ = ["Agreement", "Series", "kendall_tau"]

MOST_STRETCHES: Final = 64
"""Stretches that a series keeps at most; then two at a time become one."""


@define
class Agreement:
    """Comparisons of a stretch of steps.

    Args:
        step: The first of them.
        time: When it began (seconds).
        num_steps: Their number.
        num_choices: Steps in which the queue was looked at: one was admitted or held up.
        num_same_choices: Those of them in which the other one would have looked at the same.
        num_admitted: Requests that were admitted.
        num_same_admitted: Those of them that the other one would have been looking at, too.
        num_contended: Steps in which tokens did not suffice for those that ran.
        num_same_grants: Those of them in which the other one would have scheduled the same.
        num_orders: Times that orders of waiting requests were compared.
        sum_tau: Kendall's tau of those orders, summed.
        num_yields: Steps in which the other one would have preempted a request.
    """

    step: int
    time: float
    num_steps: int = 0
    num_choices: int = 0
    num_same_choices: int = 0
    num_admitted: int = 0
    num_same_admitted: int = 0
    num_contended: int = 0
    num_same_grants: int = 0
    num_orders: int = 0
    sum_tau: float = 0.0
    num_yields: int = 0

    def add(self, other: Agreement) -> None:
        """Take in what was compared in another stretch."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def ratios(self) -> dict[str, float | None]:
        """Shares of what was compared, 0..1, and the mean tau, -1..1; None where nothing was."""
        return {
            "same_choices_ratio": _ratio(self.num_same_choices, self.num_choices),
            "same_admissions_ratio": _ratio(self.num_same_admitted, self.num_admitted),
            "same_grants_ratio": _ratio(self.num_same_grants, self.num_contended),
            "order_tau": _ratio(self.sum_tau, self.num_orders),
        }


_COUNTS: Final = tuple(name for name in Agreement.__slots__ if name.startswith(("num_", "sum_")))


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


@define
class Series:
    """Agreement over time: stretches of equal length, as long as it takes to keep them few."""

    stretches: list[Agreement] = field(factory=list)
    length: int = 16

    def at(self, step: int, time: float) -> Agreement:
        """The stretch that a step belongs to; it counts as one of its steps."""
        if not self.stretches or self.stretches[-1].num_steps >= self.length:
            if len(self.stretches) == MOST_STRETCHES:
                self._halve()
            if self.stretches[-1:] == [] or self.stretches[-1].num_steps >= self.length:
                self.stretches.append(Agreement(step, time))
        self.stretches[-1].num_steps += 1
        return self.stretches[-1]

    def total(self) -> Agreement:
        """All stretches together."""
        total = Agreement(0, 0.0)
        for stretch in self.stretches:
            total.add(stretch)
        return total

    def write(self, path: Path) -> None:
        """Write the rows as a CSV file."""
        rows = list(self.rows())
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0] if rows else ["step"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def rows(self) -> Iterator[dict[str, float | None]]:
        """Each stretch: its first step, when that began, steps, ratios."""
        for part in self.stretches:
            yield {"step": part.step, "time_s": part.time, "steps": part.num_steps, **part.ratios()}

    def _halve(self) -> None:
        pairs = zip(self.stretches[::2], self.stretches[1::2], strict=True)
        kept = []
        for first, second in pairs:
            first.add(second)
            kept.append(first)
        self.stretches, self.length = kept, 2 * self.length


def kendall_tau(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Agreement of two orders without ties, on what both have: 1 the same, -1 reversed.

    None if they have fewer than two in common. (Kendall 1938.)
    """
    places = {item: place for place, item in enumerate(second)}
    ranks = [places[item] for item in first if item in places]
    pairs = [(a < b) - (a > b) for i, b in enumerate(ranks) for a in ranks[:i]]
    return sum(pairs) / len(pairs) if pairs else None
