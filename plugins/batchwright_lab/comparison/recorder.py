"""An observer of a simulation for a comparison: its requests, queue, cache and service."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from batchwright.plugin import hookimpl
from batchwright.protocols import Observer
from batchwright_lab.comparison.series import Series

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["OUTPUT_WEIGHT", "RECORDER", "Recorder", "RecorderPlugin"]

RECORDER: Final = "comparison-recorder"
OUTPUT_WEIGHT: Final = 2
"""Weight of an output token beside a computed prompt token, as in Sheng et al. 2024."""

_COLUMNS: Final = {
    "id": "request_id",
    "client": "client",
    "slo_class": "slo_class",
    "arrival": "arrival_time",
    "scheduled": "scheduled_time",
    "first_token": "first_token_time",
    "finish": "finish_time",
    "prompt_tokens": "num_prompt_tokens",
    "output_tokens": "num_output_tokens",
    "cached_tokens": "num_cached_tokens",
    "recomputed_tokens": "num_recomputed_tokens",
    "preemptions": "num_preemptions",
    "displacements": "num_policy_preemptions",
}
_read: Final = attrgetter(*_COLUMNS.values())


class Recorder(Observer):
    """Keep a row for each request, and samples over time.

    It watches events alone, so that a simulation fast-forwards as far as without it.

    Attributes:
        columns: Of the requests, in the order of their ends.
        series: Samples over time.
    """

    name = RECORDER

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.columns: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, "end", "detail")}
        self.series = Series()
        self._filled = [self.columns[name] for name in _COLUMNS]
        self._live: dict[str, RequestView] = {}
        self._running: dict[str, RequestView] = {}
        self._begun: dict[str, int] = {}
        """Service so far of live requests that were scheduled."""
        self._waiting: dict[str, int] = {}
        """Live requests that do not run, by client."""
        self._served: dict[str, int] = {}
        """Service of ended requests, by client."""

    def on_add(self, request: RequestView) -> None:
        client = request.client or ""
        self._live[request.request_id] = request
        self._served.setdefault(client, 0)
        self._waiting[client] = self._waiting.get(client, 0) + 1
        self._sample()

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._begun.setdefault(request.request_id, 0)
        self._running[request.request_id] = request
        self._waiting[request.client or ""] -= 1
        self._sample()

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        if self._running.pop(request.request_id, None):  # not if it is paused, and now loses its KV
            self._waiting[request.client or ""] += 1
        self._sample()

    def on_finish(self, request: RequestView) -> None:
        assert request.finish is not None
        client = request.client or ""
        begun = self._begun.pop(request.request_id, 0)
        self._served[client] += max(begun, _service(request))
        if not self._running.pop(request.request_id, None):
            self._waiting[client] -= 1
        del self._live[request.request_id]
        self._write(request, request.finish.reason, request.finish.detail)
        self._sample()

    def refused(self, request: RequestView, reason: str) -> None:
        """Note a request that was never added."""
        self._write(request, "refused", reason)

    def conclude(self) -> None:
        """Note those that have not ended, and how things stand; called once, at the end."""
        self._sample(force=True)
        for request in self._live.values():
            self._write(request, "unfinished", request.waiting_reason)

    def _write(self, request: RequestView, end: str, detail: str) -> None:
        for column, value in zip(self._filled, _read(request), strict=True):
            column.append(value)
        self.columns["end"].append(end)
        self.columns["detail"].append(detail)

    def _sample(self, *, force: bool = False) -> None:
        now = self.ctx.clock.now()
        if not force and not self.series.is_due(now):
            return
        view = self.ctx.view
        used = view.num_usable_blocks - view.num_free_blocks
        self.series.add(
            now,
            waiting=len(self._live) - len(self._running),
            running=len(self._running),
            kv=used / max(1, view.num_usable_blocks),
            service=self._service(),
            backlog=self._waiting,
        )

    def _service(self) -> dict[str, int]:
        """By client, service until now."""
        served, begun = dict(self._served), self._begun
        for request_id in begun:
            request = self._live[request_id]
            begun[request_id] = now = max(begun[request_id], _service(request))
            served[request.client or ""] += now
        return served


def _service(request: RequestView) -> int:
    """Return the service of a request so far; losses by a preemption are not counted."""
    computed = request.num_computed_tokens
    if request.first_token_time is not None:
        computed = request.num_prompt_tokens
    prompt = min(computed, request.num_prompt_tokens) - (request.num_cached_tokens or 0)
    return max(0, prompt) + OUTPUT_WEIGHT * request.num_output_tokens


class RecorderPlugin:
    """Offer the recorder to one simulation; no other one finds it."""

    @hookimpl
    def batchwright_register_observer(self) -> list[type[Observer]]:
        """Offer the recorder."""
        return [Recorder]
