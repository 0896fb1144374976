"""Summary of cells: spreads over seeds, and which policy is better than which."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright_lab.comparison.measure import MEASURES, Measure

if TYPE_CHECKING:
    from batchwright_lab.comparison.grid import Grid
    from batchwright_lab.comparison.outcome import Outcome

__all__ = ["Contender", "Spread", "Summary", "Versus", "summarize"]


@frozen
class Spread:
    """A figure over seeds.

    Args:
        mean: Its mean.
        least: Its least value.
        most: Its greatest value.
        count: Number of seeds that have one.
    """

    mean: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """The spread of those that are there; None if there is none."""
        found = [value for value in values if value is not None]
        if not found:
            return None
        return cls(sum(found) / len(found), min(found), max(found), len(found))


@frozen
class Versus:
    """A contender beside the baseline, in pairs of equal rate and seed.

    Args:
        change: Geometric mean of its ratios, or mean of its differences.
        least: The least of the seeds' changes.
        most: The greatest of them.
        wins: Pairs in which it is better.
        losses: Pairs in which it is worse.
        pairs: All pairs.
    """

    change: float
    least: float
    most: float
    wins: int
    losses: int
    pairs: int


@frozen
class Contender:
    """A policy with the values that vary.

    Args:
        policy: Its label.
        variation: Label of the values; empty if nothing varies.
        cells: Outcomes of its cells; by rate, seed by seed.
        spreads: By rate, the spreads of its figures; rates of which no cell is sound are left out.
        versus: Beside the baseline, by what policies are ranked by; None if there is no pair.
    """

    policy: str
    variation: str
    cells: tuple[Outcome, ...]
    spreads: Mapping[float | None, Mapping[str, Spread]]
    versus: Versus | None

    @property
    def label(self) -> str:
        """Its label."""
        return f"{self.policy} ({self.variation})" if self.variation else self.policy

    @property
    def faults(self) -> list[str]:
        """Faults that ended cells of it, each once."""
        return list(dict.fromkeys(cell.fault for cell in self.cells if cell.fault))

    @property
    def is_sound(self) -> bool:
        """True if it has been run, and nothing ended a cell of it."""
        return bool(self.cells) and not self.faults

    @property
    def decision_seconds(self) -> float | None:
        """Wall-clock time of a decision, the mean over all cells; None if none was planned."""
        found = Spread.of(cell.decision_seconds for cell in self.cells)
        return None if found is None else found.mean

    def at(self, rate: float | None, key: str) -> Spread | None:
        """A figure at a rate."""
        return self.spreads.get(rate, {}).get(key)

    def total(self, key: str) -> int:
        """The sum of a count over all cells."""
        return int(sum(cell.figures.get(key) or 0 for cell in self.cells))


@frozen
class Summary:
    """All contenders.

    Args:
        measure: Measure that ranks them.
        contenders: In the order of the command line.
        ranked: The sound ones, best first.
        second: The second one beside the first; None if there is no pair.
        rates: Of the grid.
        num_cells: Of the grid.
        num_done: Of those, the ones that there are outcomes of.
        seeds_differ: True if any two seeds of a cell have brought different figures.
        values: By label of a variation, the values that vary by their options' paths.
    """

    measure: Measure
    contenders: tuple[Contender, ...]
    ranked: tuple[Contender, ...]
    second: Versus | None
    rates: tuple[float | None, ...]
    num_cells: int
    num_done: int
    seeds_differ: bool
    values: Mapping[str, Mapping[str, str]]

    @property
    def baseline(self) -> Contender:
        """The one that others are compared with."""
        return self.contenders[0]

    @property
    def top_rate(self) -> float | None:
        """The highest rate at which every sound contender has figures, or any."""
        for rate in reversed(self.rates):
            if all(rate in contender.spreads for contender in self.ranked):
                return rate
        return self.rates[-1]

    @property
    def styles(self) -> dict[str, int]:
        """The looks of the policies, by label."""
        names = dict.fromkeys(contender.policy for contender in self.contenders)
        return {name: index for index, name in enumerate(names)}

    def rank(self, contender: Contender) -> int | None:
        """Its place, from 1; None if it has none."""
        return self.ranked.index(contender) + 1 if contender in self.ranked else None


def summarize(grid: Grid, outcomes: Sequence[Outcome], key: str) -> Summary:
    """Put outcomes together.

    Args:
        grid: The planned cells.
        outcomes: The finished cells.
        key: Key of the measure that contenders are ranked by.
    """
    ranking = MEASURES[key]
    mine: dict[tuple[str, str], list[Outcome]] = {name: [] for name in grid.contenders}
    for outcome in outcomes:
        mine[outcome.policy, outcome.variation].append(outcome)
    baseline = _figures(next(iter(mine.values())), key)
    contenders = tuple(
        Contender(*name, tuple(cells), _spreads(cells), _versus(cells, baseline, ranking))
        for name, cells in mine.items()
    )
    ranked = tuple(_rank(contenders, ranking))
    second = None
    if len(ranked) > 1:
        second = _versus(ranked[1].cells, _figures(ranked[0].cells, key), ranking)
    return Summary(
        ranking,
        contenders,
        ranked,
        second,
        grid.rates,
        len(grid.cells),
        len(outcomes),
        _seeds_differ(outcomes),
        grid.values,
    )


def _figures(cells: Iterable[Outcome], key: str) -> dict[tuple[float | None, int], float]:
    """A figure by rate and seed, where there is one."""
    found = ((cell.rate, cell.seed, cell.figures.get(key)) for cell in cells)
    return {(rate, seed): value for rate, seed, value in found if value is not None}


def _spreads(cells: Sequence[Outcome]) -> dict[float | None, dict[str, Spread]]:
    found: dict[float | None, dict[str, Spread]] = {}
    for rate in dict.fromkeys(cell.rate for cell in cells if not cell.fault):
        at_rate = [cell for cell in cells if cell.rate == rate and not cell.fault]
        spreads = {key: Spread.of(cell.figures.get(key) for cell in at_rate) for key in MEASURES}
        found[rate] = {key: spread for key, spread in spreads.items() if spread is not None}
    return found


def _versus(
    cells: Sequence[Outcome], baseline: Mapping[tuple[float | None, int], float], ranking: Measure
) -> Versus | None:
    own = _figures(cells, ranking.key)
    changes: dict[int, list[float]] = {}
    wins = losses = 0
    for (rate, seed), value in own.items():
        other = baseline.get((rate, seed))
        if other is None or (ranking.by_ratio and not (value > 0 and other > 0)):
            continue
        wins += ranking.is_better(value, other)
        losses += ranking.is_better(other, value)
        change = math.log(value / other) if ranking.by_ratio else value - other
        changes.setdefault(seed, []).append(change)
    if not changes:
        return None
    by_seed = [sum(found) / len(found) for found in changes.values()]
    every = [change for found in changes.values() for change in found]
    shown = math.exp if ranking.by_ratio else float
    change, least, most = map(shown, (sum(every) / len(every), min(by_seed), max(by_seed)))
    return Versus(change, least, most, wins, losses, len(every))


def _rank(contenders: Sequence[Contender], ranking: Measure) -> list[Contender]:
    """The sound ones, best first; equal ones in the order of the command line."""
    sound = [contender for contender in contenders if contender.is_sound]
    has_pairs = all(contender.versus is not None for contender in sound)

    def value(contender: Contender) -> float:
        if has_pairs and contender.versus is not None:
            found = contender.versus.change
        else:
            means = [s[ranking.key].mean for s in contender.spreads.values() if ranking.key in s]
            found = sum(means) / len(means) if means else math.nan
        return found if ranking.better == "less" else -found

    with_value = [contender for contender in sound if not math.isnan(value(contender))]
    return sorted(with_value, key=value)


def _seeds_differ(outcomes: Iterable[Outcome]) -> bool:
    seen: dict[tuple[str, str, float | None], Mapping[str, float | None]] = {}
    return any(
        seen.setdefault((o.policy, o.variation, o.rate), o.figures) != o.figures
        for o in outcomes
        if not o.fault
    )
