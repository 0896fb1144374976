"""Tables of all figures: by rate, by client, by class of service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.report.table import Table, Td
from batchwright_lab.comparison.summary import Spread
from batchwright_lab.comparison.wording import DASH, digits, spread_range, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["all_figures", "class_table", "client_table"]

_MOST_CLIENTS: Final = 12


def all_figures(summary: Summary) -> list[tuple[str, bool, Table]]:
    """Make a table a rate, of every measure of every contender.

    Returns:
        The rate in words, whether it is the one to show first, and the table.
    """
    return [
        (_rate(rate), rate == summary.top_rate, _at_rate(summary, rate)) for rate in summary.rates
    ]


def _at_rate(summary: Summary, rate: float | None) -> Table:
    there = [contender for contender in summary.contenders if rate in contender.spreads]
    rows = [
        [Td(measure.name), *(_cell(contender, rate, measure.key) for contender in there)]
        for measure in MEASURES.values()
        if any(contender.at(rate, measure.key) for contender in there)
    ]
    caption = "Means over seeds, below them the least and the greatest."
    return Table(["measure", *(contender.label for contender in there)], rows, caption)


def _cell(contender: Contender, rate: float | None, key: str) -> Td:
    return _spread_cell(contender.at(rate, key), key)


def _rate(rate: float | None) -> str:
    return "as the workload says" if rate is None else f"{rate:g} requests/s"


def client_table(summary: Summary) -> Table | None:
    """Make the table of each client's service at the highest rate; None if there are none."""
    clients = _busiest(summary)
    if not clients:
        return None
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
    return Table(head, rows, caption, num_names=2)


def class_table(summary: Summary) -> Table | None:
    """Make the table of shares in time by class of service; None if there is but one class."""
    names = sorted({n for c in summary.contenders for cell in c.cells for n in cell.by_class})
    if len(names) < 2:
        return None
    rows = []
    for contender in summary.contenders:
        for rate in contender.spreads:
            cells = [cell for cell in contender.cells if cell.rate == rate and not cell.fault]
            shares = (Spread.of(cell.by_class.get(name) for cell in cells) for name in names)
            figures = [_spread_cell(spread, "attainment") for spread in shares]
            rows.append([Td(contender.label), Td(_rate(rate)), *figures])
    caption = "Requests in time, by class of service."
    return Table(["policy", "rate", *(n or "(none)" for n in names)], rows, caption)


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
