"""Fair shares of tokens among clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from batchwright.option import option
from batchwright.protocols import SchedulingPolicy
from batchwright.queues import GroupedQueue
from batchwright_plugins.policy.service_counters import ServiceCounters, positive_weights

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["Fair"]


@frozen
class Options:
    """Options of fair."""

    input_weight: float = option(1.0, "What a computed prompt token counts.", ge=0)
    output_weight: float = option(2.0, "What an output token counts.", ge=0)
    weights: Mapping[str, float] = option(
        Factory(dict),
        "By client, its share beside others.",
        default_text="1 for every client",
        check=positive_weights,
    )


class Fair(SchedulingPolicy):
    """The client that was served least is next: virtual token counters.

    A client's counter is ``(input_weight * computed prompt tokens + output_weight * output
    tokens) / weight``; within a client, first come, first served. A client that comes back
    is lifted to the least counter of those that wait (or, if nobody waits, to that of the
    client that was admitted last), so that being away saves no credit. Sheng et al. 2024,
    "Fairness in Serving Large Language Models", algorithm 2: the counters of two clients
    that both have requests waiting never differ by more than ``2 * max(input_weight *
    longest prompt, output_weight * tokens of a batch)`` (theorem 4.4), whatever one sends.

    Requests without a client share an account. Starves nobody: a client waits for at most
    that much service of each other one; within a client nobody is passed. Work-conserving.
    O(log clients), whatever waits.
    """

    name = "fair"
    Options = Options

    def make_queue(self) -> GroupedQueue:
        options = self.options
        self.counters = ServiceCounters(
            self.ctx, options.input_weight, options.output_weight, options.weights
        )
        self._last_admitted: str | None = None
        return GroupedQueue(self.account, self.counters.__getitem__)

    def account(self, request: RequestView) -> str | None:
        return request.client

    def on_add(self, request: RequestView) -> None:
        if request not in self.queue:  # it is parked
            return
        ticket = self.queue.remove(request)
        head = self.queue.peek()
        other = self._last_admitted if head is None else head.client
        self.counters.lift(request.client, self.counters[other])
        self.queue.restore(request, ticket)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._last_admitted = request.client
