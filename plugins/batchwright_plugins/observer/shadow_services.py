"""The context of a policy that is only asked: all calls work, without effect."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from batchwright.counters import SharedCount
from batchwright.runtime_services import RuntimeServices
from batchwright.usage import UsageByAccount

if TYPE_CHECKING:
    from batchwright.compat import Compat
    from batchwright.counts import Counts
    from batchwright.protocols import Component, Estimator, Predictor
    from batchwright.request_view import RequestView
    from batchwright.step_record import StepRecord
    from batchwright.step_view import StepView
    from batchwright.usage import Usage

__all__ = ["ShadowServices"]


class ShadowServices(RuntimeServices):
    """Services with usage, timers and estimates of their own; signals have no effect.

    What it shows of the scheduler is true. ``usage`` knows tokens, but not blocks.

    Args:
        services: Those of the engine.
        predictor: A predictor of the shadow's own.
    """

    def __init__(self, services: RuntimeServices, predictor: Predictor) -> None:
        self._services = services
        self._predictor = predictor
        self.estimator_was_asked = False  # by the run: what a shadow asks changes nothing
        self._own_usage = UsageByAccount(SharedCount(), SharedCount())
        self._usage_of: dict[str, Usage] = {}
        self._recomputed: dict[str, int] = {}
        self._marks: list[tuple[RequestView, int, Any]] = []
        self._alarms: list[tuple[float, int, Any]] = []
        self._order = count()
        self._estimates: dict[str, float] = {}

    @property
    def view(self) -> StepView:
        return self._services.view

    @property
    def counts(self) -> Counts:
        return self._services.counts

    @property
    def compat(self) -> Compat:
        return self._services.compat

    @property
    def usage(self) -> UsageByAccount:
        """Service that accounts of its own received."""
        return self._own_usage

    @property
    def estimator(self) -> Estimator:
        return self._services.estimator

    def prefix_hit(self, request: RequestView) -> int:
        return self._services.prefix_hit(request)

    def predict(self, requests: Sequence[RequestView], *, anew: bool) -> list[float]:
        """Estimates of a predictor of its own."""
        unknown = [r for r in requests if anew or r.request_id not in self._estimates]
        if unknown:
            found = self._predictor.output_tokens(unknown)
            for request, tokens in zip(unknown, found, strict=True):
                self._estimates[request.request_id] = float(tokens)
        return [self._estimates[request.request_id] for request in requests]

    def group_data(self, name: str, slot: int) -> dict[str, Any]:
        return self._services.group_data(name, slot)

    def call_at_tokens(
        self, request: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        self._marks.append((request, num_computed_tokens, payload))

    def call_at(self, time: float, component: Component, payload: Any) -> None:
        heapq.heappush(self._alarms, (time, next(self._order), payload))

    def end(self, request: RequestView, reason: str) -> None:
        """Do nothing: no request ends by it."""

    def signal(self, key: str) -> None:
        """Do nothing: no request waits for a key of it."""

    # Its owner's side.
    def open_account(self, request: RequestView, key: Hashable) -> None:
        """Let a request pay from an account."""
        self._usage_of[request.request_id] = self._own_usage.open(key)

    def charge(self, record: StepRecord) -> None:
        """Charge the scheduled tokens of a step; O(running)."""
        if not self._usage_of:
            return
        for request_id, num_tokens in record.plan.num_scheduled_tokens.items():
            usage = self._usage_of[request_id]
            if record.num_new_tokens(request_id) > 1:
                usage.prefill_tokens += num_tokens
                usage.recomputed_tokens += self._newly_recomputed(record, request_id)
            else:
                usage.add_decode_tokens(num_tokens)

    def credit(self, request: RequestView, hit: int) -> None:
        """Book tokens that were cached."""
        usage = self._usage_of.get(request.request_id)
        if usage is not None:
            usage.cached_tokens += hit

    def due_marks(self) -> list[tuple[RequestView, Any]]:
        """Take out token timers that are due; those of ended requests lapse. O(timers)."""
        reached: list[tuple[RequestView, Any]] = []
        left = []
        for mark in self._marks:
            request, at_computed, payload = mark
            if request.finish is not None:
                continue
            if request.num_computed_tokens >= at_computed:
                reached.append((request, payload))
            else:
                left.append(mark)
        self._marks[:] = left
        return reached

    def due_alarms(self, now: float) -> list[Any]:
        """Take out clock timers that are due."""
        due = []
        while self._alarms and self._alarms[0][0] <= now:
            due.append(heapq.heappop(self._alarms)[2])
        return due

    def forget(self, request: RequestView) -> None:
        """Drop what is kept of an ended request."""
        for table in (self._usage_of, self._recomputed, self._estimates):
            table.pop(request.request_id, None)

    def _newly_recomputed(self, record: StepRecord, request_id: str) -> int:
        request = record.request(request_id)
        total = 0 if request is None else request.num_recomputed_tokens
        before = self._recomputed.get(request_id, 0)
        self._recomputed[request_id] = total
        return total - before
