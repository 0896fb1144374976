"""The table of the answer: all policies, best first, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from batchwright_engine.answering.report import duration
from batchwright_engine.text_table import aligned
from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.wording import DASH, change, value

if TYPE_CHECKING:
    from batchwright_lab.comparison.summary import Contender, Summary

__all__ = ["PHRASES", "cost", "in_order", "ranked_lines", "unserved"]

PHRASES: Final = {"attainment": "share of requests in time"}
"""Measures whose names are no phrases."""
_SHOWN: Final = ("ttft_p99", "tpot_p99", "e2e_mean")
_LOSSES: Final = ("refused", "failed", "unfinished")


def ranked_lines(summary: Summary) -> Iterator[str]:
    """A caption, a head, and a line for each policy; those that have no rank come last."""
    if not summary.num_done:
        return
    rows = [_head(summary), *(_row(summary, contender) for contender in in_order(summary))]
    is_empty = [not any(row[i] for row in rows[1:]) for i in range(len(rows[0]))]
    rows = [[cell for cell, empty in zip(row, is_empty, strict=True) if not empty] for row in rows]
    yield _caption(summary)
    yield from aligned(rows)


def in_order(summary: Summary) -> list[Contender]:
    """The ranked ones, best first, then the others."""
    others = [contender for contender in summary.contenders if contender not in summary.ranked]
    return [*summary.ranked, *others]


def unserved(contender: Contender) -> str:
    """Requests that a policy did not serve to their end, over all its runs; empty if none."""
    num_arrived = contender.total("arrived")
    counts = {word: contender.total(word) for word in _LOSSES}
    parts = [f"{number:,} {word}" for word, number in counts.items() if number]
    if not parts:
        return ""
    first, _, word = parts[0].partition(" ")
    return ", ".join([f"{first} of {num_arrived:,} {word}", *parts[1:]])


def cost(contender: Contender) -> str:
    """Wall-clock time of a decision, the mean over all runs; empty if it is not known."""
    seconds = contender.decision_seconds
    return "" if seconds is None else duration(seconds)


def _caption(summary: Summary) -> str:
    over = f" over all {len(summary.rates)} rates" if len(summary.rates) > 1 else ""
    at = "" if summary.top_rate is None else f" at {summary.top_rate:g} requests/s"
    what = PHRASES.get(summary.measure.key, summary.measure.name)
    return (
        f"Ranked by {what} beside {summary.baseline.label}{over}; latencies{at} are means over "
        "seeds, of requests that ended by themselves:"
    )


def _keys(summary: Summary) -> Sequence[str]:
    return [summary.measure.key, *(key for key in _SHOWN if key != summary.measure.key)]


def _head(summary: Summary) -> list[str]:
    word = "of" if summary.measure.by_ratio else "against"
    names = [MEASURES[key].name for key in _keys(summary)]
    versus = f"{word} {summary.baseline.label}"
    return ["", "policy", names[0], versus, "better in", *names[1:], "a decision", "not served"]


def _row(summary: Summary, contender: Contender) -> list[str]:
    rank = summary.rank(contender)
    figures = []
    for key in _keys(summary):
        spread = contender.at(summary.top_rate, key)
        figures.append(value(MEASURES[key], spread.mean if spread else None))
    if not contender.is_sound:
        figures[0] = "failed" if contender.cells else "not run yet"
    versus = contender.versus
    beside = ["baseline" if contender is summary.baseline else DASH, ""]
    if versus is not None and contender is not summary.baseline:
        beside = [change(summary.measure, versus.change), f"{versus.wins} of {versus.pairs}"]
    place = f"{rank}." if rank else DASH
    tail = [cost(contender), unserved(contender)]
    return [place, contender.label, figures[0], *beside, *figures[1:], *tail]
