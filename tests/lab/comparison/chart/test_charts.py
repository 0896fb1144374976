"""Charts are sound SVG, say what they show, and tell series by more than colour."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from batchwright_lab.comparison.chart.picture import picture

from batchwright_lab.comparison.chart.dot_chart import Dot, DotChart
from batchwright_lab.comparison.chart.line_chart import HEIGHT, WIDTH, Line, LineChart
from batchwright_lab.comparison.chart.series_style import dashes, mark

LINES = [
    Line("a<b", 0, [(2.0, 1.0), (4.0, 3.0)], band=[(0.5, 2.0), (2.0, 4.0)], notes=["x", "y"]),
    Line("other", 1, [(2.0, 100.0), (4.0, 200.0)], is_step=True),
]
CHART = LineChart("TTFT, s", "rate", LINES, y_may_be_log=True, x_ticks=[2.0, 4.0])


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def test_line_chart_names_itself_and_its_axes() -> None:
    svg = CHART.svg(7)
    found = texts(svg)
    assert found[0] == "TTFT, s (logarithmic)"
    assert found[-1] == "rate"
    assert {"2", "4", "1", "10", "100"} <= set(found)
    root = ET.fromstring(svg)
    assert root.get("aria-labelledby") == "c7"
    assert root.findtext("title") == "TTFT, s against rate: a<b, other"


def test_axis_is_linear_where_values_are_near() -> None:
    chart = LineChart("n", "x", [LINES[0]], y_may_be_log=True)
    assert texts(chart.svg(0))[0] == "n"


def test_points_with_notes_are_marked_and_told() -> None:
    root = ET.fromstring(CHART.svg(0))
    marks = [e for e in root.iter("path") if e.get("class") == "mark"]
    assert [e.findtext("title") for e in marks[:2]] == ["a<b: x", "a<b: y"]
    assert len([e for e in root.iter("path") if e.get("class") == "band"]) == 1


def test_series_differ_in_dashes_and_marks() -> None:
    assert len({dashes(index) for index in range(8)}) == 8
    assert len({mark(index, 0, 0) for index in range(8)}) == 8


def test_empty_line_draws_nothing() -> None:
    ET.fromstring(LineChart("n", "x", [Line("a", 0, [])]).svg(0))


def test_dot_chart_has_a_row_each() -> None:
    dots = [Dot("a&b", 0, 2.0, 1.0, 3.0, "a&b: 2"), Dot("c", 1, 5.0, 5.0, 5.0, "c: 5")]
    found = texts(DotChart("E2E", "s", dots).svg(0))
    assert [text for text in found if text in ("E2E", "s", "a&b", "c")] == ["E2E", "s", "a&b", "c"]
    assert "6" in found
    assert "40" in texts(DotChart("E2E", "s", dots, most=40.0).svg(0))


def test_picture_stands_alone() -> None:
    """Two charts a row, a legend, styles for both kinds of light; no link to anything."""
    svg = picture([CHART, CHART, CHART], [(0, "a<b"), (1, "other")], "All & more")
    root = ET.fromstring(svg)
    assert root.get("viewBox") == f"0 0 {2 * WIDTH} {2 * HEIGHT + 30}"
    assert "prefers-color-scheme:dark" in svg
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
    found = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert found[-2:] == ["a<b", "other"]
