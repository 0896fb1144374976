"""Bound what each client may use in a window of time."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from batchwright.option import option
from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Defer, Verdict

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["Quota"]


def _quotas(_instance: object, _field: object, clients: Mapping[str, int]) -> None:
    for client, tokens in clients.items():
        if tokens < 1:
            raise ValueError(f"expected tokens >= 1, got {tokens!r} for {client!r}")


@frozen
class Options:
    """Options of the quota."""

    tokens: int = option(
        100_000, "Most tokens of a client's requests in a window.", unit="tokens", ge=1
    )
    window: float = option(60.0, "Length of a window.", unit="seconds", gt=0, lt=inf)
    clients: Mapping[str, int] = option(
        Factory(dict),
        "Value of tokens by client.",
        default_text="tokens for every client",
        check=_quotas,
    )


@define
class Charged:
    """Tokens of a request that its client was charged; None: it was never admitted."""

    num_charged: int | None = None


class Quota(Gate):
    """Hold back a client's requests for the rest of a window once its tokens are used up.

    Windows follow one another from the start of the run. A prompt is charged when it is
    admitted, the outputs when the request ends; neither again after a preemption. A request is
    deferred while its prompt exceeds the rest of the quota. Others pass it, and it returns to
    its own place when the next window begins. A prompt larger than the quota is admitted in an
    unused window, since it could otherwise never be served. Requests without a client share a
    quota.

    A token bucket in fixed windows, as API gateways count them: at the border of two windows a
    client may use two quotas in a row. O(1) a candidate; deferred requests cost nothing until
    their window ends.
    """

    name = "quota"
    Data = Charged
    Options = Options

    def setup(self) -> None:
        self._used: dict[str | None, int] = {}
        self._ends = self.ctx.clock.now() + self.options.window
        self._number = 0
        self._held: dict[str, None] = {}

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        self._turn(view.now)
        used = self._used.get(request.client, 0)
        quota = self.options.clients.get(request.client, self.options.tokens)
        wanted = 0 if request.scheduled_time is not None else request.num_prompt_tokens
        if not used or not wanted or used + wanted <= quota:
            return ADMIT
        return Defer(
            until=self._next_window(),
            reason=f"client {request.client!r} has used {used} of {quota} tokens in this window",
        )

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._charge(request)

    def on_finish(self, request: RequestView) -> None:
        if self.ctx.data(request).num_charged is not None:
            self._turn(self.ctx.clock.now())
            self._charge(request)

    def on_timer(self, payload: Any) -> None:
        self.ctx.signal(payload)

    def _charge(self, request: RequestView) -> None:
        """Charge what was not charged yet of a request."""
        charged = self.ctx.data(request).num_charged or 0
        self.ctx.data(request).num_charged = request.num_tokens
        used = self._used.get(request.client, 0)
        self._used[request.client] = used + request.num_tokens - charged

    def _turn(self, now: float) -> None:
        """Begin a new window if the last one is over."""
        if now < self._ends:
            return
        self._ends += (floor((now - self._ends) / self.options.window) + 1) * self.options.window
        if self._ends <= now:  # a matter of rounding
            self._ends += self.options.window
        self._number += 1
        self._used.clear()
        self._held.clear()

    def _next_window(self) -> str:
        """The key that is signalled when the next window begins."""
        key = f"{self.ctx.path} {self._number + 1}"
        if key not in self._held:
            self._held[key] = None
            self.ctx.call_at(self._ends, key)
        return key
