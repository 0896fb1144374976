"""Checks of every component that takes part in scheduling."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from batchwright.exceptions import RequestRefusedError
from batchwright.request import Request
from batchwright.scheduler import Scheduler
from batchwright.testing.arrivals import odd_requests, random_arrivals
from batchwright.testing.conformance.base import Conformance
from batchwright.testing.driver import Driver
from batchwright.testing.executor import ScriptedExecutor
from batchwright.testing.spy import Spy

Arrivals = dict[int, list[Request]]

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pipelined": {"scheduler": {"pipeline_depth": 2}},
    "without prefix caching": {"kv": {"enable_prefix_caching": False}},
    "one seat": {"scheduler": {"max_num_seqs": 1}},
    "roomy": {"kv": {"num_blocks": 400}, "scheduler": {"max_num_seqs": 16}},
}


class ServingConformance(Conformance):
    """Random requests are served with the component in the scheduler, all checks on.

    Attributes:
        may_refuse: True if it may refuse or reject requests; a gate may.
    """

    may_refuse: ClassVar[bool] = False

    def before_step(self, driver: Driver) -> None:
        """Prepare a step of the tests' runs; e.g. signal keys that requests wait for."""

    def arrivals(self, seed: int = 0) -> Arrivals:
        """Requests by the step before which they arrive; new ones at each call."""
        return random_arrivals(seed, **self.request_fields)

    def serve(
        self, scheduler: Scheduler, arrivals: Arrivals, *, depth: int = 1, aborts: int | None = None
    ) -> Driver:
        """Run requests to their ends; E1 to E7 and I1 to I6 are checked on the way.

        Args:
            scheduler: The scheduler that is driven.
            arrivals: Requests by the step before which they arrive.
            depth: Plans in flight.
            aborts: A seed for aborts and a loss of the executor; None: none.
        """
        driver = self.driver(scheduler, depth=depth)
        chance = random.Random(aborts)
        for step in range(5000):
            self._arrive(driver, arrivals.get(step, ()))
            if step > max(arrivals) and not scheduler.has_unfinished:
                break
            if aborts is not None and scheduler.requests and chance.random() < 0.2:
                driver.abort(chance.choice(list(scheduler.requests)))
            if aborts is not None and step == 9:
                driver.restart()
            self.before_step(driver)
            driver.turn()
        driver.finish(max_steps=1)
        self._check_ends(driver)
        return driver

    def driver(self, scheduler: Scheduler, *, depth: int = 1) -> Driver:
        """A driver with an executor that has the worker side of every feature."""
        limits = scheduler.sizes
        executor = ScriptedExecutor.standalone(limits.num_blocks, limits.block_size)
        for feature in scheduler.components.features:
            executor.install(feature.name, feature.worker_side())
        return Driver(scheduler, executor, depth=depth)

    def spied(self, **sections: Any) -> tuple[Spy, Scheduler]:
        """A scheduler with the component in it, and a spy on its methods."""
        spy = Spy()
        scheduler = self.scheduler(spy.watch(self.kind, self.component), **sections)
        return spy, scheduler

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_request_ends_once_with_its_own_answer(self, variant: str) -> None:
        """Whatever it decides, no request is lost and no answer depends on it: E1 to E7."""
        spy, scheduler = self.spied(**VARIANTS[variant])
        self.serve(scheduler, self.arrivals(), depth=scheduler.pipeline_depth)
        assert spy.errors == []
        assert scheduler.fault_counts == {}
        assert scheduler.progress_guard.num_interventions == 0, scheduler.progress_guard.last_report

    def test_aborts_and_a_lost_executor_leave_nothing_behind(self) -> None:
        """Requests end, and are computed again, at any time."""
        for seed in range(3):
            spy, scheduler = self.spied()
            self.serve(scheduler, self.arrivals(seed), aborts=seed)
            assert spy.errors == []
            assert scheduler.fault_counts == {}

    def test_odd_requests_are_served(self) -> None:
        """No client, no deadline, one token, equal times of arrival: nothing raises."""
        spy, scheduler = self.spied()
        self.serve(scheduler, {0: odd_requests(**self.request_fields)})
        assert spy.errors == []
        assert scheduler.fault_counts == {}

    def test_same_seed_decides_the_same(self) -> None:
        """Same seed, same requests, same configuration: the same plans."""
        first, second = (self.serve(self.scheduler(), self.arrivals(7)) for _ in range(2))
        assert first.recorder.plans == second.recorder.plans
        assert first.recorder.finished == second.recorder.finished

    def _arrive(self, driver: Driver, requests: Any) -> None:
        for request in requests:
            try:
                driver.add(request)
            except RequestRefusedError:
                if not self.may_refuse:
                    raise

    def _check_ends(self, driver: Driver) -> None:
        """No request ends with an error, unless it was turned away."""
        for request in driver.requests:
            assert request.finish is not None
            if request.finish.reason == "error":
                assert self.may_refuse, f"{request.request_id}: {request.finish.detail}"
                assert "raised" not in request.finish.detail
                assert "expected" not in request.finish.detail
