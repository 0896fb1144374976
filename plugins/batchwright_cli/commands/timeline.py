"""``batchwright timeline``: a recorded run as a trace for Perfetto, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from batchwright.plugin import Command

if TYPE_CHECKING:
    from batchwright_lab.timeline.timeline_window import Window

__all__ = ["TimelineCommand"]

_ZOOM: Final = 2.0
"""Pixels a unit of the drawing."""


class TimelineCommand(Command):
    """Draw the run of a decision log: a trace for Perfetto, a picture of a window."""

    name = "timeline"
    help = "Draw a recorded run: for Perfetto, or as a picture."

    def build(self) -> click.Command:
        return _timeline


class _Range(click.ParamType):  # type: ignore[type-arg]
    """``A:B``, either of which may be left out."""

    name = "range"

    def __init__(self, number: type[int] | type[float]) -> None:
        self._number = number

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        begin, colon, end = str(value).partition(":")
        try:
            found = self._number(begin or 0), self._number(end) if end else math.inf
        except ValueError:
            found = (1, 0)
        if not colon or not 0 <= found[0] <= found[1]:
            self.fail(f"expected A:B with 0 <= A <= B, either may be left out, got {value!r}")
        return found


@click.command("timeline")
@click.argument("path", metavar="LOG", type=click.Path(path_type=Path))
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Trace events (JSON) of the whole run, for ui.perfetto.dev or chrome://tracing.",
)
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A picture of a window; needs batchwright[lab].",
)
@click.option("--png", type=click.Path(path_type=Path, dir_okay=False), help="The same as pixels.")
@click.option("--pdf", type=click.Path(path_type=Path, dir_okay=False), help="The same as PDF.")
@click.option("--steps", type=_Range(int), metavar="A:B", help="The window, in steps.")
@click.option("--seconds", type=_Range(float), metavar="A:B", help="The window, in seconds.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=40, help="Most requests drawn. Default: 40."
)
def _timeline(
    path: Path,
    perfetto: Path | None,
    svg: Path | None,
    png: Path | None,
    pdf: Path | None,
    steps: tuple[int, float] | None,
    seconds: tuple[float, float] | None,
    rows: int,
) -> None:
    """Draw the run that LOG records.

    The trace has a track a request (queued and why, prefill chunks, decode, paused,
    preempted), one for the steps, and counters. The picture is a window of it: a row a
    request, and below how many ran and waited and how full the KV cache was. Without
    --steps or --seconds it is the whole run.
    """
    if perfetto is None and svg is None and png is None and pdf is None:
        raise click.UsageError("say what to write: --perfetto, --svg, --png or --pdf")
    if steps is not None and seconds is not None:
        raise click.UsageError("--steps and --seconds say the same; give one of them")
    from batchwright_engine.output_file import keep_apart

    keep_apart([("the decision log, which is read", path)], perfetto, svg, png, pdf)
    _check_packages({"--svg": svg, "--png": png, "--pdf": pdf})
    if perfetto is not None:
        _write_trace(path, perfetto)
    if svg is not None or png is not None or pdf is not None:
        _draw(path, svg, png, pdf, _window(steps, seconds), rows)


def _window(steps: tuple[int, float] | None, seconds: tuple[float, float] | None) -> Window:
    from batchwright_lab.timeline.timeline_window import Window

    if steps is not None:
        return Window(first=steps[0], last=steps[1])
    begin, end = seconds or (0.0, math.inf)
    return Window(begin=begin, end=end)


def _write_trace(path: Path, output: Path) -> None:
    from batchwright_engine.output_file import writing
    from batchwright_lab.recording.log_file import follow_log, header_of
    from batchwright_lab.recording.spans import Spans
    from batchwright_lab.timeline.perfetto import TraceWriter

    header = header_of(path)
    with writing(output) as file:
        text = TextIOWrapper(file, "utf-8", "backslashreplace", newline="\n")
        writer = TraceWriter(text, header["num_usable_blocks"], path.name)
        writer.write(Spans().of(follow_log(path)))
        text.detach()
    click.echo(f"{output}: {writer.num_events:,} events")


def _check_packages(pictures: Mapping[str, Path | None]) -> None:
    """Refuse a picture where there is nothing to draw it with, before any work."""
    from batchwright_lab.extra_packages import PICTURE_MODULES, missing_packages, without

    options = [option for option, path in pictures.items() if path is not None]
    if options and (missing := missing_packages(*PICTURE_MODULES)):
        raise click.ClickException(without(", ".join(options), missing))


def _draw(
    path: Path, svg: Path | None, png: Path | None, pdf: Path | None, window: Window, rows: int
) -> None:
    from batchwright_lab.recording.log_file import follow_log, header_of, recorded_policy
    from batchwright_lab.recording.spans import Spans
    from batchwright_lab.timeline.timeline_chart import Timeline
    from batchwright_lab.timeline.timeline_window import look

    header = header_of(path)
    picture = look(Spans().of(follow_log(path)), window)
    steps = f"steps {picture.steps[0].step:,} to {picture.steps[-1].step:,}"
    policy = recorded_policy(header)
    title = f"{policy}: {steps}" if policy else steps.capitalize()
    subtitle = (
        f"{path.name}; {len(picture.rows)} requests; at most {header['max_num_seqs']} at a time "
        f"and {header['max_num_batched_tokens']:,} tokens a step, in "
        f"{header['num_usable_blocks']:,} KV blocks of {header['block_size']} tokens"
    )
    drawing = Timeline(picture, title, subtitle, header["num_usable_blocks"], rows).svg()
    _write(drawing, svg, png, pdf)
    for output in (svg, png, pdf):
        if output is not None:
            click.echo(f"{output}: {len(picture.rows[:rows])} of {len(picture.rows)} requests")


def _write(drawing: str, svg: Path | None, png: Path | None, pdf: Path | None) -> None:
    from batchwright_engine.output_file import write_bytes, write_text

    if svg is not None:
        write_text(svg, drawing)
    if png is not None or pdf is not None:
        import vl_convert

        if png is not None:
            write_bytes(png, vl_convert.svg_to_png(drawing, scale=_ZOOM))
        if pdf is not None:
            write_bytes(pdf, vl_convert.svg_to_pdf(drawing))
