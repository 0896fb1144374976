"""Conformance of victims, preemption and predictors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from batchwright.plugin_manager import PluginManager
from batchwright.protocols import SchedulerBase, SchedulingPolicy
from batchwright.request_view import RequestView
from batchwright.testing.conformance.serving import ServingConformance
from batchwright.testing.spy import Spy


class VictimConformance(ServingConformance):
    """Check a victim: it names a request that runs, and only when blocks run out."""

    kind: ClassVar[str] = "victim"

    def test_a_running_request_is_named(self) -> None:
        """In the workload of the tests blocks run out again and again."""
        spy, scheduler = self.spied()
        driver = self.serve(scheduler, self.arrivals())
        calls = spy.of("choose")
        assert calls, "blocks never ran out: give less memory in `config`"
        assert all(isinstance(call.answer, RequestView) for call in calls)
        num_preemptions = sum(len(p["preempted_req_ids"]) for p in driver.recorder.plans)
        assert num_preemptions <= len(calls)

    def test_who_is_alone_is_named(self) -> None:
        """With one running request there is one answer."""
        scheduler = self.scheduler()
        driver = self.driver(scheduler)
        self._arrive(driver, self.arrivals()[0][:1])
        driver.turn()
        (alone,) = scheduler.view.running
        choose = scheduler.components.victim.choose
        assert choose(scheduler.view.running, alone, scheduler.view) is alone


class PreemptionConformance(ServingConformance):
    """Check a way of preemption: it keeps no tokens, and answers stay right."""

    kind: ClassVar[str] = "preemption"

    def test_no_tokens_are_kept(self) -> None:
        """0 is the one answer that a scheduler accepts; the block table stays as it is."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals())
        calls = spy.of("keep")
        assert calls, "no request was preempted: give less memory in `config`"
        assert [call.answer for call in calls] == [0] * len(calls)


class PredictorConformance(ServingConformance):
    """Check a predictor, in a scheduler whose policy asks it about every request."""

    kind: ClassVar[str] = "predictor"

    def any_scheduler(self, cls: type[Any] | None = None, **sections: Any) -> SchedulerBase:
        sections = {**sections, "scheduler": {**sections.get("scheduler", {}), "policy": _ASKING}}
        return super().any_scheduler(cls, **sections)

    def plugins(self, cls: type[Any] | None = None) -> PluginManager:
        return super().plugins(cls).with_component("policy", ShortestPredictedFirst)

    def test_estimates_are_finite_counts(self) -> None:
        """One number from 0 on a request, for none, one or many."""
        predictor, views = self._predictor()
        assert list(predictor.output_tokens([])) == []
        for estimate in predictor.output_tokens(views):
            assert math.isfinite(estimate)
            assert estimate >= 0
        assert len(predictor.output_tokens(views)) == len(views)

    def test_batch_answers_what_single_requests_do(self) -> None:
        """Other requests in a call do not change the estimate of one."""
        predictor, views = self._predictor()
        together = list(predictor.output_tokens(views))
        assert together == [one for view in views for one in predictor.output_tokens([view])]

    def test_it_is_asked_once_a_request(self) -> None:
        """An estimate is kept until it is wanted anew."""
        spy, scheduler = self.spied()
        driver = self.serve(scheduler, self.arrivals())
        asked = [request for call in spy.of("output_tokens") for request in call.arguments[0]]
        assert len(asked) == len(driver.requests)

    def _predictor(self) -> tuple[Any, list[RequestView]]:
        scheduler = self.scheduler(Spy().watch(self.kind, self.component))
        driver = self.driver(scheduler)
        for requests in self.arrivals().values():
            self._arrive(driver, requests)
        return scheduler.components.predictor, [r.view for r in scheduler.requests.values()]


class ShortestPredictedFirst(SchedulingPolicy):
    """Fewest output tokens expected first: what a predictor is tested under."""

    name = "conformance-shortest-predicted"

    def key(self, request: RequestView) -> float:
        return self.ctx.predict(request)[0]


_ASKING = ShortestPredictedFirst.name
