"""The answer of a comparison, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.ranking import PHRASES, unserved
from batchwright_lab.comparison.steadiness import steadiness_warnings
from batchwright_lab.comparison.wording import change, range_of_change, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Contender, Summary, Versus

__all__ = ["answer", "is_told_apart", "warnings"]

_PRICES: Final = (
    "ttft_p99", "tpot_p99", "e2e_p99", "ttft_mean", "e2e_mean", "output_tokens_per_s",
)  # fmt: skip
_OF_ALL: Final = ("attainment", "goodput")
_NEGLIGIBLE: Final = 0.01
_NOTABLE: Final = 1.05
"""Least ratio of a worse figure that is reported as a price."""


def answer(summary: Summary) -> Iterator[str]:
    """Return the best policy, its advantage, and its price."""
    if not summary.num_done:
        yield "No cell is done: there is nothing to compare yet."
        return
    if not summary.ranked:
        is_sound = any(contender.is_sound for contender in summary.contenders)
        what = summary.measure.name
        yield f"There is no {what}." if is_sound else "No policy has run without a fault."
    else:
        yield from _best(summary, summary.ranked[0])
        yield from _price(summary, summary.ranked[0])
        yield from _next(summary)


def _best(summary: Summary, best: Contender) -> Iterator[str]:
    baseline, others = summary.baseline, summary.ranked[1:]
    other = baseline if best is not baseline else next(iter(others), None)
    extreme = "lowest" if summary.measure.better == "less" else "highest"
    what = PHRASES.get(summary.measure.key, summary.measure.name)
    what += _others(summary, best)
    found = best.at(summary.top_rate, summary.measure.key)
    against = other.at(summary.top_rate, summary.measure.key) if other else None
    figures = value(summary.measure, found.mean if found else None) + _at(summary.top_rate)
    if other is None or against is None:
        yield f"{best.label}: {what} {figures}; there is nothing to compare it with."
        return
    versus = best.versus if best is not baseline else other.versus
    loss = unserved(other)
    figures += f", against {value(summary.measure, against.mean)} under {other.label}"
    figures += f" ({loss})" if loss else ""
    if versus is None or (is_told_apart(summary, versus) and _matters(summary, versus)):
        yield f"{best.label} has the {extreme} {what}: {figures}."
    elif is_told_apart(summary, versus):
        yield f"{best.label} and {other.label} hardly differ by {what}: {figures}."
    else:
        yield f"These seeds do not tell {best.label} from {other.label} by {what}: {figures}."
    if versus is not None:
        yield _told(summary, versus, other if best is baseline else best)


def _others(summary: Summary, contender: Contender) -> str:
    """The part of the requests that a figure leaves out, in brackets; empty if it is of all."""
    loss = unserved(contender)
    if not loss:
        return ""
    counts = summary.measure.key in _OF_ALL
    return f" ({loss}; {'they count as late' if counts else 'figures are of the others'})"


def _next(summary: Summary) -> Iterator[str]:
    """Yield the second policy and its difference from the first, unless it was named already."""
    if summary.second is None or summary.baseline in summary.ranked[:2]:
        return
    first, second = summary.ranked[:2]
    found = second.at(summary.top_rate, summary.measure.key)
    apart = "" if is_told_apart(summary, summary.second) else "; these seeds do not tell them apart"
    figure = value(summary.measure, found.mean if found else None) + _at(summary.top_rate)
    versus = summary.second
    yield (
        f"Next is {second.label}{_others(summary, second)} with {figure}: better than "
        f"{first.label} in {versus.wins} and worse in {versus.losses} of {versus.pairs} paired "
        f"runs{apart}."
    )


def _told(summary: Summary, versus: Versus, contender: Contender) -> str:
    """Return the figures of a contender beside the baseline, over all rates and seeds."""
    measure, label = summary.measure, summary.baseline.label
    rates = "" if len(summary.rates) < 2 else f"Over all {len(summary.rates)} rates, "
    of = f"of {label}" if measure.by_ratio else f"against {label}"
    spread = f" ({range_of_change(measure, versus)} over seeds)" if summary.seeds_differ else ""
    return (
        f"{rates}{contender.label} is at {change(measure, versus.change)} {of}{spread}, better in "
        f"{versus.wins} and worse in {versus.losses} of {versus.pairs} paired runs."
    )


def is_told_apart(summary: Summary, versus: Versus) -> bool:
    """Return True if every seed agrees about a contender and the baseline."""
    nothing = 1.0 if summary.measure.by_ratio else 0.0
    return versus.least > nothing or versus.most < nothing


def _matters(summary: Summary, versus: Versus) -> bool:
    """Return True if a change is more than a hundredth."""
    nothing = 1.0 if summary.measure.by_ratio else 0.0
    return abs(versus.change - nothing) > _NEGLIGIBLE


def _price(summary: Summary, best: Contender) -> Iterator[str]:
    """Yield the worst loss of the best policy against the baseline, at the highest rate."""
    if best is summary.baseline:
        return
    rate = summary.top_rate
    prices = []
    for key in _PRICES:
        own, other = best.at(rate, key), summary.baseline.at(rate, key)
        if own and other and own.mean > 0 and other.mean > 0:
            is_less = MEASURES[key].better == "less"
            ratio = own.mean / other.mean if is_less else other.mean / own.mean
            prices.append((ratio, key, own.mean, other.mean))
    worst = max(prices, default=None)
    if worst is None:
        return
    if worst[0] < _NOTABLE:
        yield (
            f"It pays for that with neither latency nor throughput: none of them is more than "
            f"5 % worse{_at(rate)}."
        )
        return
    _, key, own_mean, other_mean = worst
    measure = MEASURES[key]
    yield (
        f"Its price{_at(rate)}: {measure.name} {value(measure, own_mean)} against "
        f"{value(measure, other_mean)}."
    )


def warnings(summary: Summary) -> Iterator[str]:
    """Yield policies that cannot be trusted, and missing cells."""
    if 0 < summary.num_done < summary.num_cells:
        yield f"This is not all: {summary.num_done} of {summary.num_cells} cells are done."
    for contender in summary.contenders:
        if contender.faults:
            num_bad = sum(1 for cell in contender.cells if cell.fault)
            yield (
                f"{contender.label} is not ranked; {num_bad} of {len(contender.cells)} cells "
                f"failed: {contender.faults[0]}"
            )
        notes = [cell.notes[0] for cell in contender.cells if cell.notes]
        if notes:
            yield (
                f"{contender.label}: look at {len(notes)} of {len(contender.cells)} cells; "
                f"e.g. {notes[0]}"
            )
    yield from steadiness_warnings(summary)


def _at(rate: float | None) -> str:
    return "" if rate is None else f" at {rate:g} requests/s"
