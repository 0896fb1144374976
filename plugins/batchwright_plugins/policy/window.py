"""A bounded window, filtered and scored."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Literal

from attrs import define, frozen

from batchwright.option import option
from batchwright.protocols import SchedulingPolicy
from batchwright.queues import WindowQueue

if TYPE_CHECKING:
    from collections.abc import Hashable

    from batchwright.request_view import RequestView

__all__ = ["Window"]

Filter = Literal["fits", "share"]

_NEXT = 2.0
"""Beyond all scores, which are from 0 to 1; so much less are those that a filter finds."""


@frozen
class Options:
    """Options of window."""

    window: int = option(64, "Number of scored requests, the first to arrive.", ge=1, le=1024)
    hit: float = option(1.0, "Weight of the cached share of the known tokens (0..1).", ge=0, lt=inf)
    age: float = option(
        1.0, "Weight of the time since arrival, as a share of max_age (0..1).", ge=0, lt=inf
    )
    size: float = option(
        0.0, "Weight of a short prompt, as a share of max_model_len (0..1).", ge=0, lt=inf
    )
    fairness: float = option(
        0.0,
        "Weight of the service that its client lacks against the client served most (0..1).",
        ge=0,
        lt=inf,
    )
    max_age: float = option(
        60.0,
        "Age from which on the age score is 1, and the request is next if age has a weight.",
        unit="seconds",
        gt=0,
        lt=inf,
    )
    filters: tuple[Filter, ...] = option(
        (),
        "Requests that go behind the others: fits, those whose uncached tokens find no free "
        "blocks; share, those whose client holds more than max_share of the seats.",
    )
    max_share: float = option(
        0.5, "Most seats of a client, as a share of all (0..1); see filters.", gt=0, le=1
    )


@define
class Seat:
    """A seat that counts for the client of a request."""

    has_seat: bool = False


class Window(SchedulingPolicy):
    """The best-scored of the first ``window`` requests in order of arrival.

    A score is the mean of scorers, each from 0 to 1, weighted by the options ``hit``, ``age``,
    ``size`` and ``fairness``; ties fall to arrival. Requests that match a filter go behind all
    others; if all match, filters have no effect. The structure is that of kube-scheduler's and
    llm-d's filters, scorers and picker, and of vLLM's RFC for pluggable orders.

    Starves no request with ``age > 0``: a request that has reached ``max_age`` is next, in
    order of arrival, whatever other weights and filters say. With ``age = 0`` it starves low
    scores. Scores are computed again whenever the next request is wanted: O(window) scores,
    bounded, for an admission. Requests behind the window cost nothing, and a step without a
    free seat scores no request.
    """

    name = "window"
    Data = Seat
    Options = Options

    def make_queue(self) -> WindowQueue:
        options = self.options
        scorers = {"hit": self.hit, "age": self.age, "size": self.size, "fairness": self.fairness}
        self._scorers = [(w, s) for n, s in scorers.items() if (w := getattr(options, n))]
        self._total = sum(weight for weight, _ in self._scorers) or 1.0
        filters: dict[str, Callable[[RequestView], bool]] = {
            "fits": self.fits,
            "share": self.within_share,
        }
        self._filters = [filters[name] for name in options.filters]
        self._most_served = 1
        self._seats: dict[Hashable, int] = {}
        if not options.fairness:
            self.idle_methods = ("account",)
        return WindowQueue(self.score, options.window)

    def score(self, request: RequestView) -> float:
        """The weighted mean of the scorers, 2 less if a filter finds it; 2 at ``max_age``."""
        if self.options.age and self.age(request) >= 1:
            return _NEXT
        total = 0.0
        for weight, scorer in self._scorers:
            total += weight * scorer(request)
        for keeps in self._filters:
            if not keeps(request):
                return total / self._total - _NEXT
        return total / self._total

    def hit(self, request: RequestView) -> float:
        """Share of its known tokens that is cached."""
        return self.ctx.prefix_hit(request) / request.num_tokens

    def age(self, request: RequestView) -> float:
        """Time since arrival; 1 from ``max_age`` on."""
        age: float = (self.ctx.view.now - request.arrival_time) / self.options.max_age
        return min(1.0, max(0.0, age))

    def size(self, request: RequestView) -> float:
        """Return the score of a short prompt (0..1)."""
        return 1 - request.num_prompt_tokens / self.ctx.sizes.max_model_len

    def fairness(self, request: RequestView) -> float:
        """1 for a client that has received nothing, 0 for the one that received most."""
        usage = self.ctx.usage[request.client]
        served = usage.prefill_tokens - usage.recomputed_tokens + usage.decode_tokens
        self._most_served = max(self._most_served, served)
        return 1.0 - served / self._most_served

    def fits(self, request: RequestView) -> bool:
        """Return True if its uncached tokens find free blocks."""
        uncached = request.num_tokens - self.ctx.prefix_hit(request)
        return -(-uncached // self.ctx.sizes.block_size) <= self.ctx.view.num_free_blocks

    def within_share(self, request: RequestView) -> bool:
        """Return True if its client may have another seat."""
        held = self._seats.get(request.client, 0)
        return held < max(1, int(self.options.max_share * self.ctx.sizes.max_num_seqs))

    def account(self, request: RequestView) -> str | None:
        return request.client

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._seats[request.client] = self._seats.get(request.client, 0) + 1
        self.ctx.data(request).has_seat = True

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._leaves(request)

    def on_finish(self, request: RequestView) -> None:
        self._leaves(request)

    def _leaves(self, request: RequestView) -> None:
        if self.ctx.data(request).has_seat:
            self.ctx.data(request).has_seat = False
            self._seats[request.client] -= 1
            if not self._seats[request.client]:
                del self._seats[request.client]
