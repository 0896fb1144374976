"""Fair shares of tokens among clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import SchedulingPolicy
from batchwright.queues import GroupedQueue
from batchwright_plugins.policy.service_counters import ServiceCounters, ServiceOptions

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["Fair"]


class Fair(SchedulingPolicy):
    """The client with the least service is next: virtual token counters.

    A client's counter is ``(input_weight * prompt tokens + output_weight * output tokens) /
    weight``, without cached tokens. A prompt counts from its admission on. Within a client, the
    order is first come, first served. A client that comes back is lifted to the least counter
    of the waiting clients (or, if none waits, to that of the client that was admitted last), so
    that an absence saves no credit. See Sheng et al. 2024, "Fairness in Serving Large Language
    Models", algorithm 2: the counters of two clients that both have requests waiting never
    differ by more than ``2 * max(input_weight * longest prompt, output_weight * tokens of a
    batch)`` (theorem 4.4), whatever one sends.

    Requests without a client share an account. Starves no client: each waits for at most that
    much service of each other one. Within a client no request is passed. Work-conserving. O(log
    clients), whatever waits.
    """

    name = "fair"
    Options = ServiceOptions

    def make_queue(self) -> GroupedQueue:
        self.counters = ServiceCounters(self.ctx, self.options)
        return GroupedQueue(self.account, self.counters.__getitem__)

    def account(self, request: RequestView) -> str | None:
        return request.client

    def on_add(self, request: RequestView) -> None:
        self.counters.arrive(request, self.queue)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self.counters.admit(request, hit)
