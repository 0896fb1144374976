"""Longest cached prefix first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright_plugins.policy.cache_aware_policy import CacheAwarePolicy
from batchwright_plugins.policy.patient_queue import PatientQueue

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Lpm"]


@frozen
class Options:
    """Options of lpm."""

    max_wait: float | None = option(
        30.0,
        "Time in the queue after which a request is next, whatever its hit.",
        unit="seconds",
        default_text="30; none: no bound",
        ge=0,
    )


class LongestHitQueue(PatientQueue):
    """A queue that looks again at its first request: its hit may be gone."""

    policy: Lpm

    def peek(self) -> RequestView | None:
        return self.policy.fresh_head(super().peek)


class Lpm(CacheAwarePolicy):
    """Longest prefix match: most cached tokens first; ties by arrival.

    Requests are served next to others with the same prefix, and find it before it is evicted.
    With all requests known this order has the highest hit rate (SGLang, Zheng et al. 2024,
    section 3 and theorem 3.1). A preempted request returns to the place of its own cached
    blocks. Hits are kept current for all waiting requests, not for a first few: see
    ``policy/hit_watch.py``.

    Starves requests that share no prefix while others with hits keep coming. ``max_wait``
    bounds the wait of a request before it is next. O(log waiting), and for an admission the
    hash of its prompt and a lookup for each of up to 64 requests that it makes more cached.
    """

    name = "lpm"
    Options = Options

    def make_queue(self) -> PatientQueue:
        queue = LongestHitQueue(self.key, self.ctx, self.options.max_wait)
        queue.policy = self
        return queue

    def key(self, request: RequestView) -> Key:
        return -self.watch.hit(request)
