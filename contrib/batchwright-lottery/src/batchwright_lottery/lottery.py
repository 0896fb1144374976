"""The policy ``lottery``: a draw decides whose request is admitted next."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from batchwright.plugin import GroupedQueue, SchedulingPolicy, option

if TYPE_CHECKING:
    from batchwright.plugin import RequestView

__all__ = ["Lottery", "LotteryOptions"]


def _check(_: object, _attribute: object, tickets: Mapping[str, int]) -> None:
    for client, number in tickets.items():
        if number < 1:
            raise ValueError(f"tickets: {client!r} needs at least 1 ticket, got {number}")


@frozen
class LotteryOptions:
    """Options of the policy ``lottery``."""

    tickets: Mapping[str, int] = option(
        Factory(dict), "Tickets of each client.", unit="tickets", check=_check
    )
    default_tickets: int = option(1, "Tickets of a client that is not named.", unit="tickets", ge=1)


class Lottery(SchedulingPolicy):
    """Draw the client whose request is admitted next; within a client, first come.

    A client's chance is its share of the tickets of all clients that wait, so service
    is proportional to tickets and none starves (Waldspurger and Weihl, OSDI 1994).

    The draws are made ahead, as a race: every waiting client has a clock that rings
    after an exponentially distributed time whose rate is its number of tickets. The
    first to ring is client i with probability tickets_i / sum of tickets, and since
    such times have no memory only the winner has to draw again. So a draw costs
    O(log clients), and the head of the queue stays the same until it is admitted.
    """

    name = "lottery"
    Options = LotteryOptions

    def setup(self) -> None:
        self._now = 0.0
        self._rings: dict[str | None, float] = {}

    def make_queue(self) -> GroupedQueue:
        self._queue = GroupedQueue(attrgetter("client"), self._ring)
        return self._queue

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._now = max(self._now, self._rings.pop(request.client, self._now))
        self._queue.rekey_group(request.client)

    def _ring(self, client: str | None) -> float:
        """Return the time of the client's next draw, kept until it has won."""
        if client not in self._rings:
            tickets = self.options.tickets.get(client, self.options.default_tickets)
            self._rings[client] = self._now + self.ctx.random.expovariate(tickets)
        return self._rings[client]
