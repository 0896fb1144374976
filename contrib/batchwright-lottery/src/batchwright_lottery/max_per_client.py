"""The gate ``max-per-client``: bounds how many requests of one client run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attrs import frozen
from batchwright.plugin import ADMIT, Defer, Gate, Verdict, option

if TYPE_CHECKING:
    from batchwright.plugin import RequestView, StepView

__all__ = ["MaxPerClient", "MaxPerClientOptions"]


@frozen
class MaxPerClientOptions:
    """Options of the gate ``max-per-client``."""

    requests: int = option(
        4, "Most requests of one client that run at a time.", unit="requests", ge=1
    )


class MaxPerClient(Gate):
    """Skips a request while its client has as many running as it may have.

    A skipped request leaves the scan until one of its client's ends or yields, and
    returns to its own place in the queue then. Requests without a client count as one.
    """

    name = "max-per-client"
    Options = MaxPerClientOptions

    def setup(self) -> None:
        self._num_running: Counter[str | None] = Counter()

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        num_running = self._num_running[request.client]
        if num_running < self.options.requests:
            return ADMIT
        return Defer(
            until=self._key(request),
            reason=f"{num_running} requests of client {request.client!r} run",
        )

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._num_running[request.client] += 1
        request.state[self.ctx.slot] = True

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._leave(request)

    def on_finish(self, request: RequestView) -> None:
        self._leave(request)

    def _leave(self, request: RequestView) -> None:
        if not request.state[self.ctx.slot]:
            return  # it did not run
        request.state[self.ctx.slot] = None
        self._num_running[request.client] -= 1
        if not self._num_running[request.client]:
            del self._num_running[request.client]
        self.ctx.signal(self._key(request))

    def _key(self, request: RequestView) -> str:
        return f"{self.ctx.path}/{request.client}"
