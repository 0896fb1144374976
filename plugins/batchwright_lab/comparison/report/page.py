"""The page: first the answer, then the evidence, then how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING

from batchwright_lab.comparison.answer import answer, warnings
from batchwright_lab.comparison.chart.picture import legend_entry
from batchwright_lab.comparison.chart.series_style import CHART_CSS
from batchwright_lab.comparison.report.evidence import Chart, Evidence
from batchwright_lab.comparison.report.figure_tables import (
    render_all_figures,
    render_classes,
    render_clients,
)
from batchwright_lab.comparison.report.html import element, figures, paragraph
from batchwright_lab.comparison.report.method import left_out, oracle_stamp, render_method
from batchwright_lab.comparison.report.ranking_table import render_ranking

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.report.setup import Setup
    from batchwright_lab.comparison.summary import Summary

__all__ = ["render_page"]


def render_page(outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> str:
    """The whole page; it refers to nothing outside."""
    styles = {
        name: index
        for index, name in enumerate(dict.fromkeys(c.policy for c in summary.contenders))
    }
    title = f"Comparison of {', '.join(styles)}" if len(styles) < 9 else "Comparison of policies"
    css = (files(__package__) / "style.css").read_text(encoding="utf-8")
    body = "".join(
        [
            _header(title, outcomes, summary, setup),
            element("section", "".join(_answer(outcomes, summary, styles)), class_="answer"),
            *_problems(outcomes),
            *_evidence(summary),
            *_tables(summary),
            element("h2", "How it was made"),
            element("section", render_method(outcomes, summary, setup)),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f"<style>{CHART_CSS}{css}</style></head>\n<body><main>{body}</main></body></html>\n"
    )


def _header(title: str, outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> str:
    workloads = _each(o.record.get("components", {}).get("workload") for o in outcomes)
    step_times = _each(o.record.get("step_times") for o in outcomes)
    num_seeds = len({outcome.seed for outcome in outcomes})
    rates = f"{len(summary.rates)} rates, " if len(summary.rates) > 1 else ""
    seeds = "1 seed" if num_seeds == 1 else f"{num_seeds} seeds"
    facts = [
        f"{summary.num_done} simulations{workloads and f' on {workloads}'}: {rates}{seeds}.",
        step_times and f"Step times: {step_times}.",
        f"In time: {setup.targets}." if setup.targets else "",
        left_out(outcomes, setup),
    ]
    text = " ".join(filter(None, facts))
    return element("header", element("h1", escape(title)) + paragraph(text, class_="soft"))


def _each(words: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


def _answer(outcomes: Sequence[Outcome], summary: Summary, styles: dict[str, int]) -> Iterator[str]:
    yield from (paragraph(sentence, class_="lead") for sentence in answer(summary))
    yield from (paragraph(sentence, class_="warning") for sentence in warnings(summary))
    stamp = oracle_stamp(outcomes)
    if stamp:
        yield paragraph(
            f"Oracle: something here knows what cannot be known in service ({stamp}). Read its "
            "figures as a bound, not as a promise.",
            class_="stamp",
        )
    if summary.num_done:
        yield render_ranking(summary, styles)


def _problems(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Cells that failed, or that one should look at; those that say the same together."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        for text in filter(None, (outcome.fault, *outcome.notes)):
            found.setdefault((outcome.policy, text), []).append(outcome)
    if found:
        items = (
            f"<li><b>{escape(policy)}</b> ({escape('; '.join(map(_place, cells)))}): "
            f"{escape(text)}</li>"
            for (policy, text), cells in found.items()
        )
        yield element("h2", "Look at these cells")
        yield element("ul", "".join(items), class_="problems")


def _place(outcome: Outcome) -> str:
    rate = "" if outcome.rate is None else f"{outcome.rate:g}/s"
    return ", ".join(filter(None, [outcome.variation, rate, f"seed {outcome.seed}"]))


def _evidence(summary: Summary) -> Iterator[str]:
    numbers = count()
    rate = summary.top_rate
    at = "" if rate is None else f" at {rate:g} requests/s"
    spread = "Bands" if len(summary.rates) > 1 else "Whiskers"
    bands = f" {spread}: least and greatest of the seeds." if summary.seeds_differ else ""
    against = "against arrival rate" if len(summary.rates) > 1 else "of each policy"
    for evidence in Evidence.of(summary):
        yield element(
            "h2", f"Evidence{f': {escape(evidence.variation)}' if evidence.variation else ''}"
        )
        yield _legend(evidence)
        yield from _group(f"Latency {against}", f"Means over seeds.{bands}",
                          evidence.latency(), numbers)  # fmt: skip
        yield from _group(f"Service, fairness and memory {against}", f"Means over seeds.{bands}",
                          evidence.service(), numbers)  # fmt: skip
        yield from _group(f"Clients{at}", "Whiskers: least and greatest of the seeds.",
                          evidence.by_client(), numbers)  # fmt: skip
        yield from _group(f"Distributions{at}", "All seeds together, on a logarithmic axis.",
                          evidence.distributions(), numbers)  # fmt: skip
        yield from _group(f"Over time{at}", "The first seed.", evidence.over_time(), numbers)


def _legend(evidence: Evidence) -> str:
    entries = (legend_entry(style, contender.policy) for style, contender in evidence.contenders)
    return element("div", "".join(element("span", entry) for entry in entries), class_="legend")


def _group(name: str, note: str, charts: Iterable[Chart], numbers: Iterator[int]) -> Iterator[str]:
    drawn = [chart.svg(next(numbers)) for chart in charts]
    if drawn:
        yield element("h3", escape(name)) + paragraph(note, class_="soft") + figures(drawn)


def _tables(summary: Summary) -> Iterator[str]:
    clients, classes = render_clients(summary), render_classes(summary)
    if clients or classes:
        yield element("h2", "Who was served") + classes + clients
    if summary.num_done:
        yield element("h2", "All figures") + render_all_figures(summary)
