"""The table below the answer: the ranking, and further figures of each policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.ranking import cost, in_order, unserved
from batchwright_lab.comparison.report.table import Table, Td
from batchwright_lab.comparison.wording import DASH, change, range_of_change, spread_range, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["ranking_table"]

_COLUMNS: Final = (
    "attainment", "ttft_p50", "ttft_p99", "tpot_p99", "e2e_mean", "e2e_p99",
    "output_tokens_per_s", "recompute_tax", "hit_ratio", "jain", "starved",
)  # fmt: skip
_MAY_BE_ABSENT: Final = ("attainment", "recompute_tax", "hit_ratio", "jain", "starved")


def ranking_table(summary: Summary) -> Table:
    """Make the table."""
    rate = summary.top_rate
    keys = [key for key in _COLUMNS if key not in _MAY_BE_ABSENT or _matters(summary, key)]
    over = ", over all rates" if len(summary.rates) > 1 else ""
    at = "" if rate is None else f" at {rate:g} requests/s"
    caption = (
        f"Ranked by {summary.measure.name} beside {summary.baseline.label}{over}; "
        f"the other columns{at}: means over seeds, below them the least and the greatest. "
        "Latencies are those of requests that ended by themselves."
    )
    head = ["policy", f"{summary.measure.name} beside baseline", "better in"]
    losses = ["not served"] if any(unserved(c) for c in summary.contenders) else []
    rows = list(_rows(summary, keys, bool(losses)))
    names = (MEASURES[key].name for key in keys)
    return Table([*head, *losses, *names, "a decision"], rows, caption)


def _rows(summary: Summary, keys: list[str], has_losses: bool) -> Iterator[list[Td]]:
    best = {key: _best(summary, key) for key in keys}
    for contender in in_order(summary):
        rank = summary.rank(contender)
        place, style = f"{rank}." if rank else "", summary.styles[contender.policy]
        cells = [Td(contender.policy, contender.variation, place=place, style=style)]
        cells += _versus(summary, contender)
        if has_losses:
            cells.append(Td(unserved(contender) or "0"))
        for key in keys:
            spread = contender.at(summary.top_rate, key)
            if spread is None:
                cells.append(Td(DASH))
                continue
            measure = MEASURES[key]
            below = spread_range(measure, spread) if spread.least != spread.most else ""
            cells.append(Td(value(measure, spread.mean), below, is_best=spread.mean == best[key]))
        yield [*cells, Td(cost(contender) or DASH)]


def _versus(summary: Summary, contender: Contender) -> list[Td]:
    versus = contender.versus
    if not contender.cells:
        return [Td("not run yet"), Td()]
    if not contender.is_sound:
        return [Td("failed"), Td()]
    if contender is summary.baseline or versus is None:
        return [Td("baseline" if contender is summary.baseline else DASH), Td()]
    below = range_of_change(summary.measure, versus) if summary.seeds_differ else ""
    is_best = contender is summary.ranked[0]
    return [
        Td(change(summary.measure, versus.change), below, is_best=is_best),
        Td(f"{versus.wins} of {versus.pairs}", f"worse in {versus.losses}"),
    ]


def _matters(summary: Summary, key: str) -> bool:
    """Tell if a figure is more than nothing for any contender."""
    spreads = [contender.at(summary.top_rate, key) for contender in summary.contenders]
    return any(spread is not None and spread.most for spread in spreads)


def _best(summary: Summary, key: str) -> float | None:
    """The best mean of the ranked ones; None if they are equal, or none is better."""
    measure = MEASURES[key]
    spreads = [contender.at(summary.top_rate, key) for contender in summary.ranked]
    means = [spread.mean for spread in spreads if spread is not None]
    if measure.better is None or len(set(means)) < 2:
        return None
    return max(means) if measure.better == "more" else min(means)
