"""Draw a window of a run: a row a request, and how full the machine was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from attrs import frozen

from batchwright_lab.recording.spans import RequestEnd, Span, Step
from batchwright_lab.timeline.timeline_window import Picture, Row

__all__ = ["Drawing"]

_WIDTH: Final = 1200
_LEFT: Final = 132
_RIGHT: Final = 28
_TOP: Final = 96
_ROW: Final = 20
_BAR: Final = 13
_CHART: Final = 62
_GAP: Final = 20
_MOST_STEP_LINES: Final = 160
_LABEL: Final = 18

# Colours of Okabe and Ito (2008), told apart with any eyes; patterns tell them apart in grey.
_FILLS: Final = {
    "queued": ("#e4e4e7", "#a1a1aa", "waits in the queue"),
    "prefill": ("#0072b2", "", "prefill, a chunk a step"),
    "recompute": ("#d55e00", "#ffffff", "computes again"),
    "decode": ("#8fd0bb", "", "decodes"),
    "stalled": ("#ffffff", "#009e73", "runs, no tokens"),
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
_ENDS: Final = {"stop": "#18181b", "length": "#18181b", "abort": "#c2410c", "error": "#b91c1c"}
_STYLE: Final = (
    "text{font-family:'Inter','Helvetica Neue',Arial,'DejaVu Sans',sans-serif;fill:#27272a}"
    ".title{font-size:17px;font-weight:600}.sub{font-size:12px;fill:#52525b}"
    ".label{font-size:11px}.tick{font-size:11px;fill:#52525b}.key{font-size:11.5px}"
)


@frozen
class Drawing:
    """A picture of a window as SVG: one row a request, charts below, seconds along the axis.

    Args:
        picture: The picture to draw.
        title: Above it.
        subtitle: Below that.
        num_blocks: KV blocks that requests can hold.
        most_rows: Rows at most; those that arrive later are counted.
    """

    picture: Picture
    title: str
    subtitle: str
    num_blocks: int
    most_rows: int

    @property
    def _rows(self) -> list[Row]:
        return self.picture.rows[: self.most_rows]

    @property
    def _bottom(self) -> float:
        """Below the last row."""
        return _TOP + _ROW * len(self._rows)

    @property
    def _height(self) -> float:
        return self._bottom + 2 * (_GAP + _CHART) + 52

    def svg(self) -> str:
        """The whole picture."""
        size = f'width="{_WIDTH}" height="{self._height:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
                f'viewBox="0 0 {_WIDTH} {self._height:g}" role="img" '
                f"aria-label={quoteattr(self.title)}>",
                f"<style>{_STYLE}</style>",
                f"<defs>{''.join(_patterns())}</defs>",
                f'<rect {size} fill="#ffffff"/>',
                f'<text x="24" y="32" class="title">{escape(self.title)}</text>',
                f'<text x="24" y="52" class="sub">{escape(self.subtitle)}</text>',
                *self._legend(),
                *self._grid(),
                *self._body(),
                *self._charts(),
                "</svg>\n",
            ]
        )

    def _x(self, time: float) -> float:
        span = self.picture.end - self.picture.begin
        return _LEFT + (time - self.picture.begin) / span * (_WIDTH - _LEFT - _RIGHT)

    def _legend(self) -> Iterator[str]:
        x = 24.0
        seen = {span.kind for row in self._rows for span in row.spans}
        for kind, (_, _, text) in _FILLS.items():
            if kind in seen:
                yield _rect(x, 68, 18, 12, kind)
                yield f'<text x="{x + 24:g}" y="78" class="key">{text}</text>'
                x += 24 + _text_width(text) + 18
        yield f'<path d="{_marker(x + 4, 74)}" fill="#18181b"/>'
        yield f'<text x="{x + 14:g}" y="78" class="key">first token</text>'
        x += 14 + _text_width("first token") + 18
        yield f'<circle cx="{x + 4:g}" cy="74" r="3.2" fill="#18181b"/>'
        yield f'<text x="{x + 14:g}" y="78" class="key">end</text>'

    def _grid(self) -> Iterator[str]:
        """Ticks at round seconds; hairlines at steps where there are few of them."""
        bottom = self._height - 40
        steps = self.picture.steps
        if len(steps) <= _MOST_STEP_LINES:
            for step in steps:
                x = self._x(step.begin)
                yield f'<path d="M{x:.2f} {_TOP - 4}V{self._bottom:g}" stroke="#f4f4f5"/>'
        ticks, digits = _ticks(self.picture.begin, self.picture.end)
        for time in ticks:
            x = self._x(time)
            yield f'<path d="M{x:.2f} {_TOP - 6}V{bottom:g}" stroke="#d4d4d8"/>'
            yield (
                f'<text x="{x:.2f}" y="{bottom + 16:g}" class="tick" text-anchor="middle">'
                f"{time:.{digits}f}</text>"
            )
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        hidden = len(self.picture.rows) - len(self._rows)
        what = "request is" if hidden == 1 else "requests are"
        more = f"; {hidden} more {what} not drawn" if hidden else ""
        yield (
            f'<text x="{middle:g}" y="{bottom + 33:g}" class="tick" text-anchor="middle">'
            f"seconds{more}</text>"
        )

    def _body(self) -> Iterator[str]:
        for index, row in enumerate(self._rows):
            y = _TOP + _ROW * index
            name = row.request_id
            shown = name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}…"
            yield (
                f'<text x="{_LEFT - 10}" y="{y + _BAR - 1:g}" class="label" text-anchor="end">'
                f"{escape(shown)}</text>"
            )
            for span in row.spans:
                yield self._span(span, y)
            if row.first_token is not None:
                yield f'<path d="{_marker(self._x(row.first_token), y)}" fill="#18181b"/>'
            for end in row.ends:
                yield self._end(end, y)

    def _span(self, span: Span, y: float) -> str:
        assert span.end is not None, "a picture has ends"
        x = self._x(span.begin)
        width = max(0.7, self._x(span.end) - x)
        told = [span.kind, f"{span.begin:.4g} to {span.end:.4g} s"]
        told += [f"{span.num_tokens} tokens"] if span.num_tokens else []
        told += [span.reason] if span.reason else []
        return _rect(x, y, width, _BAR, span.kind, ", ".join(told))

    def _end(self, end: RequestEnd, y: float) -> str:
        x, middle = self._x(end.time), y + _BAR / 2
        text = escape(f"{end.reason} ({end.detail}), {end.time:.4g} s")
        colour = _ENDS.get(end.reason, _ENDS["error"])
        if end.reason in ("abort", "error"):
            shape = f'<path d="M{x - 3:.2f} {middle - 3:g}l6 6m0 -6l-6 6" stroke="{colour}" '
            return f'{shape}stroke-width="1.8"><title>{text}</title></path>'
        return (
            f'<circle cx="{x:.2f}" cy="{middle:g}" r="3.2" fill="{colour}" stroke="#ffffff">'
            f"<title>{text}</title></circle>"
        )

    def _charts(self) -> Iterator[str]:
        top = self._bottom + _GAP
        before = [] if self.picture.before is None else [self.picture.before]
        seen = [*before, *self.picture.steps]
        most = max(max(step.num_running, step.num_waiting) for step in seen)
        yield from self._chart(
            top,
            "requests",
            most or 1,
            [
                ("waiting", "#a1a1aa", lambda step: step.num_waiting, True),
                ("running", "#009e73", lambda step: step.num_running, False),
            ],
        )
        yield from self._chart(
            top + _CHART + _GAP,
            "KV blocks",
            self.num_blocks,
            [("used", "#0072b2", lambda step: self.num_blocks - step.num_free_blocks, True)],
        )

    def _chart(self, top: float, title: str, most: int, lines: list[_Line]) -> Iterator[str]:
        bottom = top + _CHART
        right = _WIDTH - _RIGHT
        yield f'<path d="M{_LEFT} {bottom:g}H{right}" stroke="#71717a"/>'
        yield f'<path d="M{_LEFT} {top:g}H{right}" stroke="#e4e4e7"/>'
        for text, y in ((f"{most:,}", top + 4), ("0", bottom + 4)):
            x = _LEFT - 10
            yield f'<text x="{x}" y="{y:g}" class="tick" text-anchor="end">{text}</text>'
        y = top + _CHART / 2
        yield f'<text x="24" y="{y - 4:g}" class="label">{title}</text>'
        for index, (name, colour, value, is_filled) in enumerate(lines):
            path = self._steps_path(bottom, most, value)
            if is_filled:
                yield f'<path d="{path}V{bottom:g}H{_LEFT}Z" fill="{colour}" opacity=".28"/>'
            yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
            at = y + 10 + 13 * index
            yield f'<path d="M24 {at:g}h12" stroke="{colour}" stroke-width="2.4"/>'
            yield f'<text x="41" y="{at + 4:g}" class="tick">{name}</text>'

    def _steps_path(self, bottom: float, most: int, value: Callable[[Step], int]) -> str:
        """A line that holds each step's value up to the next one."""
        before = self.picture.before
        last = 0 if before is None else value(before)
        path = [f"M{_LEFT} {bottom:g}V{bottom - last / most * (_CHART - 4):.2f}"]
        for step in self.picture.steps:
            count = value(step)
            if count != last:
                height = bottom - count / most * (_CHART - 4)
                path.append(f"H{self._x(step.begin):.2f}V{height:.2f}")
                last = count
        return "".join([*path, f"H{_WIDTH - _RIGHT}"])


_Line = tuple[str, str, Callable[[Step], int], bool]
"""Name, colour, what of a step, whether the area below is filled."""


def _rect(x: float, y: float, width: float, height: float, kind: str, text: str = "") -> str:
    fill = f"url(#{kind})" if kind in _PATTERNS else _FILLS[kind][0]
    border = (
        f' stroke="{_FILLS[kind][1]}" stroke-width=".6"' if _FILLS[kind][1] and width > 3 else ""
    )
    edge = ' stroke="#ffffff" stroke-width=".5"' if kind == "prefill" and width > 3 else border
    place = f'x="{x:.2f}" y="{y:g}" width="{width:.2f}" height="{height}"'
    if not text:
        return f'<rect {place} fill="{fill}"{edge}/>'
    return f'<rect {place} fill="{fill}"{edge}><title>{escape(text)}</title></rect>'


def _text_width(text: str) -> float:
    """About how wide a text of the legend is (pixels)."""
    return sum(3.8 if letter in "fijlrt ,." else 7.0 for letter in text)


def _patterns() -> Iterator[str]:
    for kind, path in _PATTERNS.items():
        paper, ink, _ = _FILLS[kind]
        yield (
            f'<pattern id="{kind}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<rect width="6" height="6" fill="{paper}"/>{path.format(ink=ink)}</pattern>'
        )


def _marker(x: float, y: float) -> str:
    """A small triangle that points down to a moment."""
    return f"M{x - 3.6:.2f} {y - 3.5:.2f}h7.2l-3.6 5.6z"


def _ticks(begin: float, end: float) -> tuple[list[float], int]:
    """Round times within a window, some ten of them, and how many digits they need."""
    digits = 0
    width = 10.0**12
    while (end - begin) / width < 6:
        for factor in (5.0, 2.0, 1.0):
            if (end - begin) / (width * factor / 10) >= 6:
                break
        width = width * factor / 10
    while width * 10**digits < 0.999:
        digits += 1
    first = -int(-begin // width)
    times = [index * width for index in range(first, int(end / width) + 1)]
    return times, digits
