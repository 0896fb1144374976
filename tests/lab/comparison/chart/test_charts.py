"""Charts say what they show, tell series by more than colour, and are right in any renderer."""

from __future__ import annotations

import math
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

import altair as alt
import pytest
import vl_convert

from batchwright_lab.comparison.chart.dot_chart import Dot, DotChart
from batchwright_lab.comparison.chart.drawing import log_axis, rounded, rows_of
from batchwright_lab.comparison.chart.figure import Figure
from batchwright_lab.comparison.chart.line_chart import Line, LineChart, spans_decades
from batchwright_lab.comparison.chart.series_style import DASHES, MARKS
from batchwright_lab.comparison.chart.theme import DARK_THEME, LIGHT_THEME, PAGE_THEME, Theme

LINES = [
    Line("a<b", 0, [(2.0, 1.0), (4.0, 3.0)], band=[(0.5, 2.0), (2.0, 4.0)], notes=["x", "y"]),
    Line("other", 1, [(2.0, 100.0), (4.0, 200.0)], notes=["z", "w"]),
]
CHART = LineChart("TTFT, s", "rate", LINES, y_may_be_log=True, x_ticks=[2.0, 4.0])
STYLES = {"a<b": 0, "other": 1}
DOTS = [Dot("a<b", 0, 2.0, 1.0, 3.0, "2 s"), Dot("other", 1, 5.0, 5.0, 5.0, "5 s")]


def svg(chart: LineChart | DotChart, theme: Theme = LIGHT_THEME) -> str:
    drawn = chart.drawn(alt.InlineData(rows_of(chart.columns())), STYLES).to_dict()
    drawn["config"] = theme.config(STYLES.values())
    return vl_convert.vegalite_to_svg(drawn)


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawing).iter() if element.text]


def spec(chart: LineChart | DotChart) -> dict[str, Any]:
    return chart.interactive(alt.NamedData("rows"), STYLES).to_dict()


def test_line_chart_names_itself_and_its_axes() -> None:
    found = texts(svg(CHART))
    assert {"TTFT, s (logarithmic)", "rate", "2", "4", "1", "10", "100"} <= set(found)
    assert CHART.description == "TTFT, s against rate: a<b, other"


def test_axis_is_linear_where_values_are_near() -> None:
    assert LineChart("n", "x", [LINES[0]], y_may_be_log=True).title == "n"
    assert not spans_decades([0.0, 100.0])
    assert not spans_decades([])


@pytest.mark.parametrize(
    ("values", "written"), [([1.0, 5.0], "1,2,5"), ([0.1, 10.0], "1,3"), ([0.001, 100.0], "1")]
)
def test_the_more_decades_the_fewer_values_are_written(values: list[float], written: str) -> None:
    assert f"indexof([{written}]" in log_axis(values)["labelExpr"]


def test_numbers_along_an_axis_are_short() -> None:
    lines = [Line("other", 1, [(0.0, 0.0), (1.0, 15_000.0)], notes=["", ""])]
    assert {"0", "5000", "10k", "15k"} <= set(texts(svg(LineChart("n", "x", lines))))


def test_words_lie_along_an_axis_in_their_order() -> None:
    lines = [Line("other", 1, [("lru", 1.0), ("fifo", 2.0)], notes=["", ""])]
    found = texts(svg(LineChart("n", "policy", lines, x_ticks=["lru", "fifo"])))
    assert [text for text in found if text in ("lru", "fifo")] == ["lru", "fifo"]


def test_lines_without_notes_have_a_few_marks_and_tell_some_points() -> None:
    line = Line("a<b", 0, [(float(i), 1.0) for i in range(240)], is_step=True)
    marks = line.columns(log_x=False)["m"]
    assert (marks.count(2), marks.count(2) + marks.count(1)) == (5, 65)


def test_series_differ_in_dashes_and_marks() -> None:
    assert (len(set(DASHES)), len(set(MARKS))) == (8, 8)


def test_rows_are_columns_turned() -> None:
    assert rows_of(LINES[0].columns(log_x=False) for _ in range(1)) == [
        {"s": "a<b", "x": 2.0, "y": 1.0, "l": 0.5, "h": 2.0, "n": "x"},
        {"s": "a<b", "x": 4.0, "y": 3.0, "l": 2.0, "h": 4.0, "n": "y"},
    ]
    assert [rounded(1 / 3), rounded(math.inf)] == [0.33333, None]


def test_dot_chart_has_a_row_each_and_says_its_values() -> None:
    chart = DotChart("E2E", "s", DOTS)
    found = texts(svg(chart))
    assert [text for text in found if text in ("a<b", "other")][:2] == ["a<b", "other"]
    assert {"E2E", "s", "5"} <= set(found)
    assert "40" in texts(svg(DotChart("E2E", "s", DOTS, most=40.0)))
    assert chart.description == "E2E: a<b: 2 s, other: 5 s"


@pytest.mark.parametrize(
    ("chart", "axes"),
    [
        (CHART, ["x", "y"]),
        (DotChart("E2E", "s", DOTS), ["x"]),
        (LineChart("n", "x", [Line("other", 1, [("lru", 1.0)], notes=[""])]), ["y"]),
    ],
)
def test_charts_zoom_hide_series_and_tell_values(
    chart: LineChart | DotChart, axes: list[str]
) -> None:
    found = spec(chart)
    params = {param["name"]: param for param in found["params"]}
    assert params["zoom"]["bind"] == "scales"
    assert params["zoom"]["select"]["encodings"] == axes
    assert params["hidden"]["value"] == []
    assert found["transform"] == [{"filter": "indexof(hidden, datum.s) < 0"}]
    assert found["width"] == "container"
    told = [layer["encoding"].get("tooltip", []) for layer in found["layer"]]
    assert ["policy", chart.name] == [told[-1][0]["title"], told[-1][-1]["title"]]


FIGURE = Figure([CHART, CHART, CHART], STYLES, "All & more")


@pytest.mark.parametrize("theme", [LIGHT_THEME, DARK_THEME])
def test_figure_stands_alone_with_literal_colours(theme: Theme) -> None:
    """A renderer of files knows neither variables nor styles of a page."""
    drawing = FIGURE.svg(theme)
    assert re.findall(r"var\(|<style|class=\"dark|@media", drawing) == []
    assert set(re.findall(r"https?://[^\"]*", drawing)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert {theme.paper, theme.series[0], theme.series[1]} <= set(
        re.findall(r'(?:fill|stroke)="(#\w{6})"', drawing)
    )
    found = texts(drawing)
    assert found.count("TTFT, s (logarithmic)") == 3
    assert [text for text in found if text in STYLES] == ["a<b", "other"]


def test_page_takes_the_names_of_its_colours() -> None:
    drawing = svg(CHART, PAGE_THEME)
    assert {"var(--s0)", "var(--s1)", "var(--paper)", "var(--soft)"} <= set(
        re.findall(r'"(var\(--\w+\))"', drawing)
    )
    for theme in (LIGHT_THEME, DARK_THEME):
        assert theme.css().startswith(f"--ink:{theme.ink};--soft:")


def colours(png: bytes) -> Mapping[str, int]:
    """Count the pixels of each colour; of 8-bit RGB or RGBA, not interlaced."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += length + 12
    raw, stride = zlib.decompress(packed), width * size
    before = bytearray(stride)
    found: dict[str, int] = {}
    for row in range(height):
        line = unfiltered(raw[row * (stride + 1) :][: stride + 1], before, size)
        for x in range(0, stride, size):
            name = f"#{line[x : x + 3].hex()}"
            found[name] = found.get(name, 0) + 1
        before = line
    return found


def unfiltered(packed: bytes, above: bytearray, size: int) -> bytearray:
    """Undo the filter of a row of PNG (RFC 2083, chapter 6)."""
    kind, line = packed[0], bytearray(packed[1:])
    for i in range(len(line)):
        left = line[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        if kind == 4:
            guess = left + above[i] - corner
            paeth = min((left, above[i], corner), key=lambda v: abs(guess - v))
        else:
            paeth = 0
        add = {0: 0, 1: left, 2: above[i], 3: (left + above[i]) // 2, 4: paeth}[kind]
        line[i] = (line[i] + add) & 255
    return line


def by_resvg(drawing: str) -> bytes:
    return vl_convert.svg_to_png(drawing)


def by_librsvg(drawing: str) -> bytes:
    if shutil.which("rsvg-convert") is None:
        pytest.skip("rsvg-convert is not installed")
    return subprocess.run(
        ["rsvg-convert"], input=drawing.encode(), capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize("render", [by_resvg, by_librsvg])
@pytest.mark.parametrize("theme", [LIGHT_THEME, DARK_THEME])
def test_figure_is_right_when_rendered(theme: Theme, render: Any) -> None:
    """Most of it is paper, each series has its colour, and nothing is black."""
    found = colours(render(Figure([CHART], STYLES, "One").svg(theme)))
    assert max(found, key=found.__getitem__) == theme.paper
    assert min(found.get(theme.series[0], 0), found.get(theme.series[1], 0)) > 50
    assert found.get("#000000", 0) == 0


def test_figure_as_pixels_and_as_pdf() -> None:
    width, height = re.search(r'width="(\d+)" height="(\d+)"', FIGURE.svg(LIGHT_THEME)).groups()
    png = FIGURE.png(LIGHT_THEME)
    assert struct.unpack(">II", png[16:24]) == (2 * int(width), 2 * int(height))
    assert FIGURE.pdf(LIGHT_THEME).startswith(b"%PDF-")
