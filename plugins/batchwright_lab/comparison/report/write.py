"""Write the report, and the figures that stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from batchwright_engine.output_file import write_bytes, write_text
from batchwright_lab.comparison.chart.figure import Figure
from batchwright_lab.comparison.chart.line_chart import LineChart
from batchwright_lab.comparison.chart.theme import DARK_THEME, LIGHT_THEME
from batchwright_lab.comparison.report.along import Along
from batchwright_lab.comparison.report.evidence import Evidence
from batchwright_lab.comparison.report.page import render_page
from batchwright_lab.comparison.report.setup import REPORT

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.report.setup import Setup
    from batchwright_lab.comparison.summary import Summary

__all__ = ["write_report"]


def write_report(
    folder: Path,
    outcomes: Sequence[Outcome],
    summary: Summary,
    setup: Setup,
    formats: Iterable[str] = (),
) -> Path:
    """Write ``report.html``, and figures in light and dark: equal for equal outcomes.

    Args:
        folder: Folder of the files.
        outcomes: Cells that are done.
        summary: All of them.
        setup: Facts that they do not say.
        formats: ``png`` and ``pdf`` beside SVG.

    Returns:
        The page.
    """
    for name, figure in _figures(summary):
        _write_figure(folder / name, figure, set(formats))
    report = folder / REPORT
    write_text(report, render_page(outcomes, summary, setup))
    return report


def _figures(summary: Summary) -> Iterator[tuple[str, Figure]]:
    """Name the figures: along each option, and against rate with each set of values."""
    for number, along in enumerate(Along.of(summary)):
        title = f"Policies along {along.option} {along.others}".strip()
        if charts := along.highlights():
            yield f"figure-along-{number + 1}", Figure(charts, _styles(along), title)
    for number, evidence in enumerate(Evidence.of(summary)):
        charts = [chart for chart in evidence.highlights() if isinstance(chart, LineChart)]
        if charts:  # there is none of a single rate
            suffix = f"-{number + 1}" if evidence.variation else ""
            title = f"Policies against rate {evidence.variation}".strip()
            yield f"figure{suffix}", Figure(charts, _styles(evidence), title)


def _styles(part: Along | Evidence) -> dict[str, int]:
    return {name: style for style, name in part.legend}


def _write_figure(path: Path, figure: Figure, formats: set[str]) -> None:
    for suffix, theme in (("", LIGHT_THEME), ("-dark", DARK_THEME)):
        place = path.with_name(path.name + suffix)
        write_text(place.with_suffix(".svg"), figure.svg(theme))
        if "png" in formats:
            write_bytes(place.with_suffix(".png"), figure.png(theme))
    if "pdf" in formats:  # for paper, which is light
        write_bytes(path.with_suffix(".pdf"), figure.pdf(LIGHT_THEME))
