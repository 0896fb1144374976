"""The picture of a window of a run: a row a request, and below it how full the machine was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import altair as alt
import vl_convert
from altair.utils import schemapi
from attrs import frozen

from batchwright_lab.recording.spans import RequestEnd, Span, Step
from batchwright_lab.timeline.timeline_window import Picture, Row

__all__ = ["Timeline"]

_WIDTH: Final = 1040
_ABOVE: Final = "datum.mark == 'first token' ? -6 : 0"
"""A first token is marked at the upper edge of its bar."""
_ROW: Final = 20
_BAR: Final = 13
_PANEL: Final = 62
_LEFT: Final = 96
_LEGEND: Final = 72
_Count = Callable[[Step], int]
_MOST_STEP_LINES: Final = 160
_FONTS: Final = "Inter,Helvetica Neue,Arial,Liberation Sans,DejaVu Sans,sans-serif"
_INK: Final = "#18181b"

# Colours of Okabe and Ito (2008), told apart with any eyes; patterns tell them apart in grey.
_KINDS: Final = {
    "queued": ("#e4e4e7", "#a1a1aa", "waits in the queue"),
    "prefill": ("#0072b2", "#ffffff", "prefill, a chunk a step"),
    "recompute": ("#d55e00", "#ffffff", "computes again"),
    "decode": ("#8fd0bb", "#8fd0bb", "decodes"),
    "stalled": ("#ffffff", "#009e73", "runs, granted nothing"),
    "paused": ("#f3dbe8", "#cc79a7", "paused, keeps its blocks"),
    "preempted": ("#fbeec2", "#b8860b", "preempted, waits"),
}
_PATTERNS: Final = {
    "queued": '<path d="M0 6L6 0" stroke="{ink}" stroke-width=".7"/>',
    "recompute": '<path d="M0 0L6 6M0 6L6 0" stroke="{ink}" stroke-width=".9"/>',
    "stalled": '<path d="M0 3H6" stroke="{ink}" stroke-width="1.2"/>',
    "paused": '<circle cx="3" cy="3" r="1.2" fill="{ink}"/>',
    "preempted": '<path d="M0 0L6 6" stroke="{ink}" stroke-width="1.5"/>',
}
_MARKS: Final = {
    "first token": ("M-1 -1H1L0 .6Z", _INK),
    "end": ("circle", _INK),
    "aborted": ("M-.8 -.8L.8 .8M.8 -.8L-.8 .8", "#c2410c"),
    "failed": ("M-.8 -.8L.8 .8M.8 -.8L-.8 .8", "#b91c1c"),
}
_END_MARKS: Final = {"stop": "end", "length": "end", "abort": "aborted"}
_COUNTS: Final = {"waiting": "#a1a1aa", "running": "#009e73", "used": "#0072b2"}


@frozen
class Timeline:
    """A window as a chart: one row a request, panels of counts below, seconds along the axis.

    Args:
        picture: The window.
        title: Text above it.
        subtitle: Text below that.
        num_blocks: KV blocks that requests can hold.
        most_rows: Rows at most; requests that arrive later are counted.
    """

    picture: Picture
    title: str
    subtitle: str
    num_blocks: int
    most_rows: int

    def svg(self) -> str:
        """Return the whole picture; what a bar is can be read by pointing at it."""
        with schemapi.debug_mode(False):
            drawn = self._declare().to_dict(validate=False)
        drawing = vl_convert.vegalite_to_svg({**drawn, "config": _CONFIG})
        drawing = _LABELLED.sub(r"<\1\3><title>\2</title></\1>", drawing)
        return drawing.replace("><", f"><defs>{''.join(_patterns())}</defs><", 1)

    @property
    def _rows(self) -> list[Row]:
        return self.picture.rows[: self.most_rows]

    def _declare(self) -> alt.VConcatChart:
        panels = [
            self._requests(),
            self._panel(
                "requests",
                None,
                {"waiting": lambda s: s.num_waiting, "running": lambda s: s.num_running},
                is_last=False,
            ),
            self._panel(
                "KV blocks",
                self.num_blocks,
                {"used": lambda step: self.num_blocks - step.num_free_blocks},
                is_last=True,
            ),
        ]
        title = alt.TitleParams(self.title, subtitle=self.subtitle)
        chart: alt.VConcatChart = alt.VConcatChart(
            vconcat=panels, title=title, description=self.title, spacing=20, padding=20
        ).resolve_scale(color="independent", fill="independent", stroke="independent")
        return chart

    def _requests(self) -> alt.LayerChart:
        rows = {f"{i}|{row.request_id}": row for i, row in enumerate(self._rows)}
        axis = alt.Axis(
            title=None,
            labelExpr="slice(datum.label, indexof(datum.label, '|') + 1)",
            labelLimit=_LEFT - 4,
            labelPadding=8,
            minExtent=_LEFT,
            domain=False,
            ticks=False,
        )
        y = alt.Y("row:N", sort=list(rows), axis=axis, scale=alt.Scale(domain=list(rows)))
        chart: alt.LayerChart = alt.LayerChart(
            layer=[*self._hairlines(), self._bars(rows, y), self._moments(rows, y)],
            width=_WIDTH,
            height=_ROW * len(rows),
        ).resolve_scale(color="independent", fill="independent", stroke="independent")
        return chart

    def _bars(self, rows: Mapping[str, Row], y: alt.Y) -> alt.Chart:
        """Bars of what requests do."""
        spans = [
            {"row": name, "kind": span.kind, "x": span.begin, "x2": span.end, "told": _told(span)}
            for name, row in rows.items()
            for span in row.spans
        ]
        kinds = [kind for kind in _KINDS if any(span["kind"] == kind for span in spans)]
        told = ",".join(f"'{kind}':'{_KINDS[kind][2]}'" for kind in kinds)
        legend = alt.Legend(labelExpr=f"{{{told}}}[datum.label]")
        fills = [f"url(#{kind})" if kind in _PATTERNS else _KINDS[kind][0] for kind in kinds]
        edges = alt.Scale(domain=kinds, range=[_KINDS[kind][1] for kind in kinds])
        bars = alt.Chart(alt.InlineData(spans)).mark_bar(size=_BAR, strokeWidth=0.6)
        chart: alt.Chart = bars.encode(
            x=self._x(is_last=False),
            x2="x2",
            y=y,
            fill=alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=fills), legend=legend),
            stroke=alt.Stroke("kind:N", scale=edges, legend=None),
            description="told:N",
        )
        return chart

    def _moments(self, rows: Mapping[str, Row], y: alt.Y) -> alt.Chart:
        """Marks of first tokens and ends."""
        marks = [{"row": name, **found} for name, row in rows.items() for found in _marks(row)]
        looks = [name for name in _MARKS if any(mark["mark"] == name for mark in marks)]
        shapes = alt.Scale(domain=looks, range=[_MARKS[name][0] for name in looks])
        colours = alt.Scale(domain=looks, range=[_MARKS[name][1] for name in looks])
        points = alt.Chart(alt.InlineData(marks)).mark_point(
            size=34, opacity=1, yOffset=alt.ExprRef(_ABOVE)
        )
        chart: alt.Chart = points.encode(
            x=self._x(is_last=False),
            y=y,
            shape=alt.Shape("mark:N", scale=shapes, legend=alt.Legend(symbolSize=50)),
            color=alt.Color("mark:N", scale=colours, legend=None),
            fill=alt.Fill("mark:N", scale=colours, legend=None),
            description="told:N",
        )
        return chart

    def _hairlines(self) -> Iterator[alt.Chart]:
        """Lines at the steps, where there are few of them."""
        steps = self.picture.steps
        if len(steps) <= _MOST_STEP_LINES:
            data = alt.InlineData([{"x": step.begin} for step in steps])
            lines = alt.Chart(data).mark_rule(color="#f4f4f5", aria=False)
            yield lines.encode(x=self._x(is_last=False))

    def _x(self, *, is_last: bool) -> alt.X:
        hidden = len(self.picture.rows) - len(self._rows)
        what = "request is" if hidden == 1 else "requests are"
        title = f"seconds; {hidden} more {what} not drawn" if hidden else "seconds"
        axis = alt.Axis(
            title=title if is_last else None, labels=is_last, ticks=is_last, domain=is_last
        )
        scale = alt.Scale(domain=[self.picture.begin, self.picture.end], nice=False)
        return alt.X("x:Q", axis=axis, scale=scale)

    def _panel(
        self, title: str, most: int | None, counts: Mapping[str, _Count], *, is_last: bool
    ) -> alt.Chart:
        courses = {name: list(self._course(count)) for name, count in counts.items()}
        rows = [
            {"name": name, "x": time, "y": number}
            for name, course in courses.items()
            for time, number in course
        ]
        top = most or max(1, *(number for course in courses.values() for _, number in course))
        axis = alt.Axis(
            title=None,
            values=[0, top],
            minExtent=_LEFT - _LEGEND,
            labelPadding=8,
            domain=False,
            ticks=False,
        )
        legend = alt.Legend(title=title, orient="left", offset=14, symbolSize=60)
        scale = alt.Scale(domain=list(counts), range=[_COUNTS[name] for name in counts])
        area = alt.Chart(alt.InlineData(rows), width=_WIDTH, height=_PANEL).mark_area(
            interpolate="step-after", line={"strokeWidth": 1.6}, aria=False
        )
        chart: alt.Chart = area.encode(
            x=self._x(is_last=is_last),
            y=alt.Y("y:Q", stack=None, scale=alt.Scale(domain=[0, top], nice=False), axis=axis),
            color=alt.Color("name:N", scale=scale, legend=legend),
            fillOpacity=alt.condition("datum.name == 'running'", alt.value(0), alt.value(0.28)),
        )
        return chart

    def _course(self, count: _Count) -> Iterator[tuple[float, int]]:
        """Times and values of a count, which holds until the next step."""
        before = self.picture.before
        last = 0 if before is None else count(before)
        yield self.picture.begin, last
        for step in self.picture.steps:
            if count(step) != last:
                last = count(step)
                yield step.begin, last
        yield self.picture.end, last


_CONFIG: Final = {
    "background": "#ffffff",
    "font": _FONTS,
    "view": {"stroke": None},
    "title": {"anchor": "start", "frame": "bounds", "fontSize": 17, "fontWeight": 600,
              "color": "#27272a", "subtitleFontSize": 12, "subtitleColor": "#52525b", "offset": 14},
    "axis": {"labelFontSize": 11, "labelColor": "#52525b", "titleFontSize": 11,
             "titleFontWeight": "normal", "titleColor": "#52525b", "gridColor": "#d4d4d8",
             "domainColor": "#71717a", "tickCount": 10},
    "legend": {"orient": "top", "title": None, "labelFontSize": 11.5, "labelColor": "#27272a",
               "symbolType": "square", "symbolSize": 160, "columnPadding": 34, "labelLimit": 300,
               "titleFontSize": 11.5, "titleFontWeight": "normal", "titleColor": "#27272a",
               "layout": {"top": {"direction": "horizontal", "anchor": "start", "margin": 18}}},
}  # fmt: skip
_LABELLED: Final = re.compile(r'<(\w+) aria-label="([^"]*)"([^>]*)/>')


def _told(span: Span) -> str:
    assert span.end is not None, "a picture has ends"
    told = [span.kind, f"{span.begin:.4g} to {span.end:.4g} s"]
    told += [f"{span.num_tokens} tokens"] if span.num_tokens else []
    return ", ".join([*told, *([span.reason] if span.reason else [])])


def _marks(row: Row) -> Iterator[dict[str, Any]]:
    if row.first_token is not None:
        yield {"mark": "first token", "x": row.first_token, "told": "first token"}
    for end in row.ends:
        yield {"mark": _END_MARKS.get(end.reason, "failed"), "x": end.time, "told": _end(end)}


def _end(end: RequestEnd) -> str:
    return f"{end.reason} ({end.detail}), {end.time:.4g} s"


def _patterns() -> Iterator[str]:
    for kind, path in _PATTERNS.items():
        paper, ink, _ = _KINDS[kind]
        yield (
            f'<pattern id="{kind}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<rect width="6" height="6" fill="{paper}"/>{path.format(ink=ink)}</pattern>'
        )
