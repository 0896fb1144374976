"""A line of progress on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.clock import VirtualClock
from batchwright.option import option
from batchwright.protocols import Observer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["Progress"]


@frozen
class Options:
    """Options of the progress line."""

    refresh_per_second: float = option(4.0, "Rate at which the line is drawn.", unit="1/s", gt=0)


class Progress(Observer):
    """A line on the terminal (standard error): requests, tokens a second, use of KV.

    It is off if standard error is no terminal. A thread of its own draws the line from a few
    counters, so that a step costs nothing. Tokens are computed ones, prefill and decode, a
    second of the scheduler's clock; that of a simulation is shown.
    """

    name = "progress"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.console: Console | None = None
        """The output; set before the scheduler is built, or standard error."""
        self._live: Live | None = None
        self._num_added = 0
        self._num_finished = 0
        self._num_expected = 0
        self._begin: float | None = None

    def setup(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = self.console or Console(stderr=True)
        if not console.is_terminal:
            return
        self._live = Live(
            get_renderable=lambda: Text(self.line()),
            console=console,
            refresh_per_second=self.options.refresh_per_second,
        )

    def close(self) -> None:
        if self._live is not None and self._live.is_started:
            self._live.stop()

    def expect(self, num_requests: int) -> None:
        """Set the number of all requests, if it is known."""
        self._num_expected = num_requests

    def on_add(self, request: RequestView) -> None:
        self._num_added += 1
        if self._begin is None:
            self._begin = self.ctx.clock.now()
            if self._live is not None:
                self._live.start()

    def on_finish(self, request: RequestView) -> None:
        self._num_finished += 1

    def line(self) -> str:
        """Return the line to draw."""
        view = self.ctx.view
        total = max(self._num_added, self._num_expected)
        begin = self.ctx.clock.now() if self._begin is None else self._begin
        seconds = self.ctx.clock.now() - begin
        num_tokens = self.ctx.counts.scheduled_tokens
        speed = f"{num_tokens / seconds:,.0f}" if seconds > 0 else "-"
        used = 1 - view.num_free_blocks / max(1, view.num_usable_blocks)
        is_simulated = isinstance(self.ctx.clock, VirtualClock)
        at = f" at {self.ctx.clock.now():,.1f} s" if is_simulated else ""
        return (
            f"{self._num_finished}/{total} requests, {speed} tokens/s, "
            f"{view.num_running} running, {view.num_waiting} waiting, KV {used:.0%}{at}"
        )
