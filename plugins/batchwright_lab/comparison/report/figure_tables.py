"""Tables of all figures: by rate, by client, by class of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.report.html import Td, table
from batchwright_lab.comparison.summary import Spread
from batchwright_lab.comparison.wording import DASH, digits, spread_range, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["render_all_figures", "render_classes", "render_clients"]

_MOST_CLIENTS: Final = 12


def render_all_figures(summary: Summary) -> str:
    """Every measure of every contender, a table a rate; that of the highest is open."""
    return "".join(
        f"<details{' open' if rate == summary.top_rate else ''}><summary>"
        f"{_rate(rate)}</summary>{_at_rate(summary, rate)}</details>"
        for rate in summary.rates
    )


def _at_rate(summary: Summary, rate: float | None) -> str:
    there = [contender for contender in summary.contenders if rate in contender.spreads]
    rows = [
        [Td(measure.name), *(_cell(contender, rate, measure.key) for contender in there)]
        for measure in MEASURES.values()
        if any(contender.at(rate, measure.key) for contender in there)
    ]
    caption = "Means over seeds, below them the least and the greatest."
    return table(["measure", *(contender.label for contender in there)], rows, caption=caption)


def _cell(contender: Contender, rate: float | None, key: str) -> Td:
    return _spread_cell(contender.at(rate, key), key)


def _rate(rate: float | None) -> str:
    return "as the workload says" if rate is None else f"{rate:g} requests/s"


def render_clients(summary: Summary) -> str:
    """Render the service of each client at the highest rate; empty if requests have none."""
    clients = _busiest(summary)
    if not clients:
        return ""
    columns: list[tuple[str, Callable[[Outcome, str], float | None], str]] = [
        ("requests", lambda o, c: o.clients[c].requests, "arrived"),
        ("TTFT p50", lambda o, c: o.clients[c].figures["ttft_p50"], "ttft_p50"),
        ("TTFT p99", lambda o, c: o.clients[c].figures["ttft_p99"], "ttft_p99"),
        ("E2E mean", lambda o, c: o.clients[c].figures["e2e_mean"], "e2e_mean"),
        ("in time", lambda o, c: o.clients[c].figures.get("attainment"), "attainment"),
        ("service/s in contention", lambda o, c: o.clients[c].service_rate, ""),
    ]
    rows = []
    for client in clients:
        for contender in summary.contenders:
            cells = [cell for cell in _at_top(summary, contender) if client in cell.clients]
            if cells:
                figures = [
                    _spread_cell(Spread.of(get(cell, client) for cell in cells), key)
                    for _, get, key in columns
                ]
                rows.append([Td(client or "(none)"), Td(contender.label), *figures])
    at = "" if summary.top_rate is None else f" at {summary.top_rate:g} requests/s"
    caption = f"Clients{at}, those with most requests: means over seeds, and their spread."
    head = ["client", "policy", *(name for name, _, _ in columns)]
    return table(head, rows, caption=caption, num_names=2)


def render_classes(summary: Summary) -> str:
    """Share in time by class of service, at every rate; empty if there is but one class."""
    names = sorted({n for c in summary.contenders for cell in c.cells for n in cell.by_class})
    if len(names) < 2:
        return ""
    rows = []
    for contender in summary.contenders:
        for rate in contender.spreads:
            cells = [cell for cell in contender.cells if cell.rate == rate and not cell.fault]
            shares = (Spread.of(cell.by_class.get(name) for cell in cells) for name in names)
            figures = [_spread_cell(spread, "attainment") for spread in shares]
            rows.append([Td(contender.label), Td(_rate(rate)), *figures])
    caption = "Requests in time, by class of service."
    return table(["policy", "rate", *(n or "(none)" for n in names)], rows, caption=caption)


def _busiest(summary: Summary) -> list[str]:
    """Clients of the first sound cell at the highest rate, those with most requests."""
    for contender in summary.contenders:
        for cell in _at_top(summary, contender):
            names: Sequence[str] = sorted(cell.clients, key=lambda c: -cell.clients[c].requests)
            return list(names[:_MOST_CLIENTS])
    return []


def _at_top(summary: Summary, contender: Contender) -> Iterator[Outcome]:
    rate = summary.top_rate
    return (cell for cell in contender.cells if cell.rate == rate and not cell.fault)


def _spread_cell(spread: Spread | None, key: str) -> Td:
    if spread is None:
        return Td(DASH)
    if key not in MEASURES:
        below = f"{digits(spread.least)}{DASH}{digits(spread.most)}"
        return Td(digits(spread.mean), below if spread.least != spread.most else "")
    below = spread_range(MEASURES[key], spread) if spread.least != spread.most else ""
    return Td(value(MEASURES[key], spread.mean), below)
