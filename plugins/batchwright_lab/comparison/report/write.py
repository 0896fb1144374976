"""Writes the report and the pictures that stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from batchwright_engine.output_file import write_text
from batchwright_lab.comparison.chart.line_chart import LineChart
from batchwright_lab.comparison.chart.picture import picture
from batchwright_lab.comparison.report.evidence import Evidence
from batchwright_lab.comparison.report.page import render_page

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.report.setup import Setup
    from batchwright_lab.comparison.summary import Summary

__all__ = ["REPORT", "write_report"]

REPORT: Final = "report.html"


def write_report(folder: Path, outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> Path:
    """Write ``report.html``, and a picture for each variation: equal for equal outcomes.

    There is no picture of a single rate. Those of an earlier comparison are removed.

    Returns:
        The page.
    """
    for old in (folder / "figure.svg", *folder.glob("figure-[0-9]*.svg")):
        old.unlink(missing_ok=True)
    for number, evidence in enumerate(Evidence.of(summary)):
        charts = [chart for chart in evidence.highlights() if isinstance(chart, LineChart)]
        if charts:
            suffix = f"-{number + 1}" if evidence.variation else ""
            names = [(style, contender.policy) for style, contender in evidence.contenders]
            svg = picture(charts, names, f"Policies against rate {evidence.variation}".strip())
            write_text(folder / f"figure{suffix}.svg", svg)
    report = folder / REPORT
    write_text(report, render_page(outcomes, summary, setup))
    return report
