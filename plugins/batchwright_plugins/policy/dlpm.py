"""Longest cached prefix first, among clients that have not had more than others."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.queues import GroupedQueue
from batchwright_plugins.policy.cache_aware_policy import CacheAwarePolicy
from batchwright_plugins.policy.service_counters import ServiceCounters, ServiceOptions

if TYPE_CHECKING:
    from batchwright.queues import Ticket
    from batchwright.request_view import RequestView

__all__ = ["Dlpm"]


@frozen(kw_only=True)
class Options(ServiceOptions):
    """Options of dlpm."""

    quantum: float = option(
        4096.0,
        "Weighted tokens that a client may receive beyond others before it waits for them.",
        unit="tokens",
        gt=0,
    )


class ClientQueue(GroupedQueue):
    """Clients by quanta used up and by the hit of their first request; looks again at it."""

    policy: Dlpm

    def peek(self) -> RequestView | None:
        return self.policy.fresh_head(super().peek)

    def insert(self, request: RequestView, order: int) -> None:
        super().insert(request, order)
        self.rekey_group(request.client)

    def remove(self, request: RequestView) -> Ticket:
        ticket = super().remove(request)
        self.rekey_group(request.client)
        return ticket

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        super().restore(request, ticket)
        self.rekey_group(request.client)


class Dlpm(CacheAwarePolicy):
    """Deficit longest prefix match: locality as far as fairness allows.

    Every client gets a quantum of service. Among the clients that have some of it left, the
    request with most cached tokens goes first. When all waiting clients have used up their
    quantum, each gets another one. Service is counted as in ``fair``: a client has used up
    ``floor(counter / quantum)`` quanta, and the clients with the fewest are eligible. See Cao
    et al. 2025, "Locality-aware Fair Scheduling in LLM Serving" (DLPM): the difference between
    two clients that both wait is bounded by that of ``fair`` plus a quantum or two. A small
    quantum makes it ``fair``, a large one ``lpm``.

    Starves no request beyond a client's own: within a client, requests without cached tokens
    wait while others of it have some, until its queue is empty. O(log waiting), and for an
    admission the cost of ``lpm``.
    """

    name = "dlpm"
    Options = Options

    def make_queue(self) -> GroupedQueue:
        self.counters = ServiceCounters(self.ctx, self.options)
        self._clients = ClientQueue(self.account, self.place_of, self.key)
        self._clients.policy = self
        return self._clients

    def account(self, request: RequestView) -> str | None:
        return request.client

    def key(self, request: RequestView) -> int:
        return -self.watch.hit(request)

    def place_of(self, client: Hashable) -> tuple[float, int]:
        """Key of a client: quanta used up, then its best hit."""
        first = self._clients.first_of(client)
        hit = 0 if first is None else self.watch.hit(first)
        return self.counters[client] // self.options.quantum, -hit

    def on_add(self, request: RequestView) -> None:
        self.counters.arrive(request, self.queue)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        super().on_admit(request, hit, need)
        self.counters.admit(request, hit)

    def has_moved(self, request: RequestView) -> None:
        super().has_moved(request)
        self._clients.rekey_group(request.client)
