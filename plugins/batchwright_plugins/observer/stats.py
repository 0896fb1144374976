"""Counts of events, and measurements of times."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from batchwright.protocols import Observer
from batchwright_plugins.metrics import RequestTimes
from batchwright_plugins.observer.distribution import Distribution

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["Stats"]

_REASONS = ("stop", "length", "abort", "error")
_TIMES = ("queue_time", "ttft", "tpot", "e2e")
_all_times = attrgetter(*_TIMES)
_PERCENTILES = (50, 90, 99)


class Stats(Observer):
    """Latencies, throughput, preemptions, prefix hits and use of KV of one run.

    A step costs the requests that it visits, and nothing for the decode batch. Latencies are
    those of requests that ended by themselves (``stop``, ``length``): aborted and failed ones
    are counted, not timed. Beyond 100,000 of them percentiles are 0.05 % off. A preempted
    request has one TTFT, that of its first token.

    Keys of ``summary()``, in order (None if there is nothing to measure):

    - ``requests_added``, ``requests_live``, ``finished_stop``, ``finished_length``,
      ``finished_abort``, ``finished_error``: requests
    - ``queue_time_*_s``, ``ttft_*_s``, ``tpot_*_s``, ``e2e_*_s``: seconds, each with ``mean``,
      ``p50``, ``p90``, ``p99`` (see ``batchwright_plugins.metrics``)
    - ``duration_s``: from the first arrival to the last commit
    - ``output_tokens``, ``scheduled_tokens``: tokens; ``output_tokens_per_s`` and
      ``requests_per_s`` (ended by themselves) over the duration
    - ``steps``, ``empty_steps``: plans
    - ``preemptions``: times; ``recomputed_tokens``: tokens; ``recompute_tax_ratio``: of all
      scheduled tokens
    - ``prefix_queried_tokens``, ``prefix_hit_tokens``: tokens, each request once, at its first
      admission; ``prefix_hit_ratio``
    - ``kv_peak_ratio``: of usable blocks, after planning
    - ``decode_tokens``: decodes of one token; ``decode_batch_ratio``: the share of them that the
      decode batch computed (the fast path)
    """

    name = "stats"

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._live: dict[str, RequestView] = {}
        self._times = {name: Distribution() for name in _TIMES}
        self._finished = dict.fromkeys(_REASONS, 0)
        self._num_added = 0
        self._begin: float | None = None
        self._end = 0.0
        self._num_output_tokens = 0
        self._num_recomputed_tokens = 0
        self._num_preemptions = 0
        self._num_queried_tokens = 0
        self._num_hit_tokens = 0

    def on_add(self, request: RequestView) -> None:
        self._num_added += 1
        self._live[request.request_id] = request
        if self._begin is None or request.arrival_time < self._begin:
            self._begin = request.arrival_time

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        if request.num_preemptions == 0 and request.num_policy_preemptions == 0:  # the first time
            self._num_queried_tokens += request.num_prompt_tokens
            self._num_hit_tokens += hit

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._num_preemptions += cause != "paused"

    def on_finish(self, request: RequestView) -> None:
        del self._live[request.request_id]
        assert request.finish is not None
        reason = request.finish.reason
        self._end = self.ctx.clock.now()
        self._finished[reason] += 1
        self._num_output_tokens += request.num_output_tokens
        self._num_recomputed_tokens += request.num_recomputed_tokens
        if reason in ("stop", "length"):
            times = _all_times(RequestTimes.of(request))
            for value, values in zip(times, self._times.values(), strict=True):
                if value is not None:
                    values.add(value)

    def summary(self) -> dict[str, object]:
        ended = self._finished["stop"] + self._finished["length"]
        duration = self._duration()
        counts = self.ctx.counts
        output = self._num_output_tokens + sum(
            request.num_output_tokens for request in self._live.values()
        )
        return {
            "requests_added": self._num_added,
            "requests_live": len(self._live),
            **{f"finished_{reason}": count for reason, count in self._finished.items()},
            **self._latencies(),
            "duration_s": duration,
            "output_tokens": output,
            "scheduled_tokens": counts.scheduled_tokens,
            "output_tokens_per_s": _ratio(output, duration),
            "requests_per_s": _ratio(ended, duration),
            "steps": counts.steps,
            "empty_steps": counts.empty_steps,
            **self._recomputing(),
            "prefix_queried_tokens": self._num_queried_tokens,
            "prefix_hit_tokens": self._num_hit_tokens,
            "prefix_hit_ratio": _ratio(self._num_hit_tokens, self._num_queried_tokens),
            "kv_peak_ratio": self._kv_peak(),
            "decode_tokens": counts.decode_tokens,
            "decode_batch_ratio": _ratio(counts.batched_decodes, counts.decode_tokens),
        }

    def _duration(self) -> float:
        if self._begin is None:
            return 0.0
        return max(0.0, (self.ctx.clock.now() if self._live else self._end) - self._begin)

    def _latencies(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for name, values in self._times.items():
            average, percentiles = values.figures(_PERCENTILES)
            found[f"{name}_mean_s"] = average
            for share, value in zip(_PERCENTILES, percentiles, strict=True):
                found[f"{name}_p{share}_s"] = value
        return found

    def _recomputing(self) -> dict[str, object]:
        again = self._num_recomputed_tokens + sum(
            request.num_recomputed_tokens for request in self._live.values()
        )
        return {
            "preemptions": self._num_preemptions,
            "recomputed_tokens": again,
            "recompute_tax_ratio": _ratio(again, self.ctx.counts.scheduled_tokens),
        }

    def _kv_peak(self) -> float | None:
        counts = self.ctx.counts
        if not counts.steps:
            return None
        return counts.most_used_blocks / max(1, self.ctx.view.num_usable_blocks)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
