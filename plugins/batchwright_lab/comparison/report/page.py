"""The page: first the answer, then the evidence, then how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import altair as alt
import vl_convert
from attrs import frozen
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from batchwright_lab.comparison.answer import answer, warnings
from batchwright_lab.comparison.chart.drawing import as_dict
from batchwright_lab.comparison.chart.series_style import dashes, mark
from batchwright_lab.comparison.chart.theme import DARK_THEME, LIGHT_THEME, PAGE_THEME
from batchwright_lab.comparison.report.along import Along
from batchwright_lab.comparison.report.evidence import Evidence
from batchwright_lab.comparison.report.figure_tables import all_figures, class_table, client_table
from batchwright_lab.comparison.report.figures import Chart
from batchwright_lab.comparison.report.method import (
    configurations,
    facts,
    left_out,
    meanings,
    oracle_stamp,
)
from batchwright_lab.comparison.report.ranking_table import ranking_table

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.report.setup import Setup
    from batchwright_lab.comparison.summary import Summary

__all__ = ["render_page"]

_ROWS: Final = "rows"
_EXPORTS: Final = "window.vegaEmbed = vegaEmbed;"
_NOT_OF_THE_PAGE: Final = ("$schema", "config", "datasets")


@frozen
class _Group:
    """Charts under one heading."""

    name: str
    note: str
    charts: Sequence[Chart]


@frozen
class _Section:
    """Groups of charts of the same policies."""

    title: str
    legend: Sequence[tuple[int, str]]
    groups: Sequence[_Group]


def render_page(outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> str:
    """Render the whole page; it refers to nothing outside."""
    sections = [section for section in _sections(summary) if section.groups]
    charts = [chart for section in sections for group in section.groups for chart in group.charts]
    names = ", ".join(summary.styles)
    page: str = _template().render(
        title=f"Comparison of {names}" if len(summary.styles) < 9 else "Comparison of policies",
        header=_header(outcomes, summary, setup),
        answer=list(answer(summary)),
        warnings=list(warnings(summary)),
        oracles=oracle_stamp(outcomes),
        ranking=ranking_table(summary) if summary.num_done else None,
        problems=_problems(outcomes),
        sections=sections,
        served=[table for table in (class_table(summary), client_table(summary)) if table],
        figures=all_figures(summary) if summary.num_done else [],
        facts=[(name, text) for name, text in facts(outcomes, summary, setup) if text],
        meanings=list(meanings(setup)),
        configurations=configurations(outcomes),
        light=Markup(LIGHT_THEME.css()),
        dark=Markup(DARK_THEME.css()),
        charts=_as_json(charts, summary) if charts else "",
        runtime=_runtime() if charts else "",
    )
    return page


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"dashes": dashes, "mark": mark, "source": _source}
    return environment.get_template("page.html")


def _source(name: str) -> Markup:
    """Return a file that the page includes as it is."""
    return Markup((files(__package__) / "templates" / name).read_text(encoding="utf-8"))


@cache
def _runtime() -> Markup:
    """Return the scripts that draw charts: Vega, Vega-Lite and Vega-Embed, as they are."""
    return Markup(vl_convert.javascript_bundle(_EXPORTS).replace("</script", "<\\/script"))


def _as_json(charts: Iterable[Chart], summary: Summary) -> Markup:
    """Return all charts with their data, for an element of a page."""
    config = PAGE_THEME.config(summary.styles.values())
    content = {
        "config": {**config, "background": None, "legend": {"disable": True}},
        "charts": [{"spec": _spec(chart, summary), "lines": chart.columns()} for chart in charts],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _spec(chart: Chart, summary: Summary) -> dict[str, Any]:
    drawn = as_dict(partial(chart.interactive, alt.NamedData(_ROWS), summary.styles))
    return {key: value for key, value in drawn.items() if key not in _NOT_OF_THE_PAGE}


def _header(outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> str:
    workloads = _each(o.record.get("components", {}).get("workload") for o in outcomes)
    step_times = _each(o.record.get("step_times") for o in outcomes)
    num_seeds = len({outcome.seed for outcome in outcomes})
    rates = f"{len(summary.rates)} rates, " if len(summary.rates) > 1 else ""
    seeds = "1 seed" if num_seeds == 1 else f"{num_seeds} seeds"
    told = [
        f"{summary.num_done} simulations{workloads and f' on {workloads}'}: {rates}{seeds}.",
        step_times and f"Step times: {step_times}.",
        f"In time: {setup.targets}." if setup.targets else "",
        left_out(outcomes, setup),
    ]
    return " ".join(filter(None, told))


def _each(words: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(filter(None, words)))


def _problems(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Cells that failed, or that one should look at; those that say the same together."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        for text in filter(None, (outcome.fault, *outcome.notes)):
            found.setdefault((outcome.policy, text), []).append(outcome)
    return [
        (policy, "; ".join(map(_place, cells)), text) for (policy, text), cells in found.items()
    ]


def _place(outcome: Outcome) -> str:
    rate = "" if outcome.rate is None else f"{outcome.rate:g}/s"
    return ", ".join(filter(None, [outcome.variation, rate, f"seed {outcome.seed}"]))


def _sections(summary: Summary) -> Iterator[_Section]:
    rate = summary.top_rate
    at = "" if rate is None else f" at {rate:g} requests/s"
    for along in Along.of(summary):
        note = f"Means over seeds{at}.{_spread(summary, 'Bands')}"
        groups = [
            _Group(f"Latency along {along.option}", note, along.latency()),
            _Group(f"Service, fairness and memory along {along.option}", note, along.service()),
        ]
        beside = f", {along.others}" if along.others else ""
        title = f"Evidence along {along.option}{beside}"
        yield _Section(title, along.legend, _filled(groups))
    for evidence in Evidence.of(summary):
        title = f"Evidence: {evidence.variation}" if evidence.variation else "Evidence"
        yield _Section(title, evidence.legend, _filled(_groups(evidence, at)))


def _groups(evidence: Evidence, at: str) -> list[_Group]:
    summary = evidence.summary
    is_line = len(summary.rates) > 1
    against = "against arrival rate" if is_line else "of each policy"
    spread = f"Means over seeds.{_spread(summary, 'Bands' if is_line else 'Whiskers')}"
    whiskers = "Whiskers: least and greatest of the seeds."
    together = "All seeds together, on a logarithmic axis."
    return [
        _Group(f"Latency {against}", spread, evidence.latency()),
        _Group(f"Service, fairness and memory {against}", spread, evidence.service()),
        _Group(f"Clients{at}", whiskers, evidence.by_client()),
        _Group(f"Distributions{at}", together, evidence.distributions()),
        _Group(f"Over time{at}", "The first seed.", evidence.over_time()),
    ]


def _spread(summary: Summary, what: str) -> str:
    return f" {what}: least and greatest of the seeds." if summary.seeds_differ else ""


def _filled(groups: Iterable[_Group]) -> list[_Group]:
    return [group for group in groups if group.charts]
