"""Conformance of whole schedulers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from batchwright.exceptions import RequestRefusedError, StepError
from batchwright.messages import ModelOutput, StepOutputs
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Observer, SchedulerBase
from batchwright.request import Request
from batchwright.step_record import StepRecord
from batchwright.testing.arrivals import odd_requests, random_arrivals
from batchwright.testing.conformance.base import Conformance
from batchwright.testing.conformance.serving import VARIANTS, Arrivals
from batchwright.testing.driver import Driver
from batchwright.testing.recorder import plain
from batchwright.testing.requests import make_request


class Witness(Observer):
    """Keeps what an observer is told."""

    name = "witness"

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self.events: dict[str, list[str]] = {}
        self.records: list[tuple[int, dict[str, int], int]] = []
        self.tokens: dict[str, list[int]] = {}

    def on_add(self, request: Any) -> None:
        self.events[request.request_id] = ["add"]

    def on_admit(self, request: Any, hit: int, need: int) -> None:
        self.events[request.request_id].append("admit")

    def on_preempt(self, request: Any, cause: str, lost_tokens: int) -> None:
        self.events[request.request_id].append("preempt")

    def on_finish(self, request: Any) -> None:
        self.events[request.request_id].append("finish")

    def on_step(self, record: StepRecord) -> None:
        plan = record.plan
        self.records.append((plan.step_id, dict(plan.num_scheduled_tokens), record.budget))

    def summary(self) -> dict[str, object]:
        return {"steps": len(self.records)}

    def on_outputs(self, outputs: StepOutputs) -> None:
        for request_id, tokens in zip(outputs.req_ids, outputs.new_token_ids, strict=True):
            self.tokens.setdefault(request_id, []).extend(tokens)


class SchedulerConformance(Conformance):
    """Checks a whole scheduler, with the KV manager and the executor that all others have.

    Each request ends once, its tokens come in order and are those of an unlimited pool, no
    block belongs to two requests, each plan is within its budgets, nothing is left behind:
    the driver checks E1 to E7 and I1 to I6 at every step (see ``testing.violations``).
    """

    kind: ClassVar[str] = "scheduler"

    def arrivals(self, seed: int = 0) -> Arrivals:
        """Requests by the step before which they arrive; new ones at each call."""
        return random_arrivals(seed, **self.request_fields)

    def serve(
        self,
        scheduler: SchedulerBase,
        arrivals: Arrivals,
        *,
        aborts: int | None = None,
        restarts: Iterable[int] = (),
    ) -> Driver:
        """Run requests to their ends, all checks on.

        Args:
            scheduler: The scheduler.
            arrivals: Requests by the step before which they arrive.
            aborts: A seed for aborts; None: none.
            restarts: Steps before which the executor is lost.
        """
        driver = Driver(scheduler, depth=scheduler.pipeline_depth)
        chance = random.Random(aborts)
        for step in range(max(arrivals) + 1):
            driver.add(*arrivals.get(step, ()))
            if aborts is not None and scheduler.requests and chance.random() < 0.3:
                driver.abort(chance.choice(list(scheduler.requests)))
            if step in restarts:
                driver.restart()
            driver.turn()
        driver.finish(max_steps=5000)
        return driver

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_request_ends_once_with_its_own_answer(self, variant: str) -> None:
        """No request is lost, and no answer depends on how it was planned."""
        driver = self.serve(self.any_scheduler(**VARIANTS[variant]), self.arrivals())
        assert {r.finish.reason for r in driver.requests if r.finish} <= {"stop", "length"}
        assert driver.scheduler.fault_counts == {}

    def test_a_full_pool_is_survived(self) -> None:
        """Requests that outgrow the pool together are recomputed, or end alone."""
        for seed in range(3):
            scheduler = self.any_scheduler(kv={"num_blocks": 17, "enable_prefix_caching": seed > 0})
            driver = self.serve(scheduler, self.arrivals(seed))
            assert all(request.finish is not None for request in driver.requests)

    def test_aborts_end_requests_at_once(self) -> None:
        """Waiting or running, in flight or not; unknown ids are ignored."""
        for seed in range(3):
            scheduler = self.any_scheduler(**VARIANTS["pipelined" if seed else "plain"])
            driver = self.serve(scheduler, self.arrivals(seed), aborts=seed)
            reasons = [r.finish.reason for r in driver.requests if r.finish is not None]
            assert "abort" in reasons
            scheduler.abort(["no such request", driver.requests[0].request_id])
            assert scheduler.requests == {}

    def test_a_lost_executor_is_survived(self) -> None:
        """Each request goes on where it was, and its answer is the same."""
        driver = self.serve(self.any_scheduler(), self.arrivals(4), restarts=(3, 4, 11))
        assert {r.finish.reason for r in driver.requests if r.finish} <= {"stop", "length"}

    def test_a_failed_request_ends_alone(self) -> None:
        """The executor could not compute it; the others go on."""
        scheduler = self.any_scheduler()
        for number in range(3):
            scheduler.add_request(make_request(f"r{number}", 4 + number, 3, **self.request_fields))
        seen: list[str] = []
        finished: dict[str, str] = {}
        while scheduler.has_unfinished:
            plan = scheduler.schedule()
            ids = list(plan.num_scheduled_tokens)
            errors = {"r1": "out of luck"} if "r1" in ids else {}
            rows = [[] if r in errors else self._token(scheduler, r) for r in ids]
            outputs = scheduler.update_from_output(plan, ModelOutput(ids, rows, errors=errors))
            seen += outputs.req_ids
            finished |= {name: end.reason for name, end in outputs.finished.items()}
        assert finished == {"r0": "length", "r1": "error", "r2": "length"}
        assert (seen.count("r0"), seen.count("r1"), seen.count("r2")) == (3, 0, 3)
        assert scheduler.kv_manager.num_free_blocks == scheduler.kv_manager.num_usable_blocks

    def test_bad_requests_are_refused(self) -> None:
        """Nothing of them is kept."""
        scheduler = self.any_scheduler()
        longest = scheduler.sizes.max_model_len
        scheduler.add_request(make_request("twice", 3, 1, **self.request_fields))
        for bad in (
            make_request("empty", [], 1, **self.request_fields),
            make_request("long", longest, 1, **self.request_fields),
            make_request("twice", 3, 1, **self.request_fields),
        ):
            with pytest.raises(RequestRefusedError):
                scheduler.add_request(bad)
        assert list(scheduler.requests) == ["twice"]
        assert scheduler.view.num_waiting == 1

    def test_odd_requests_are_served(self) -> None:
        """One token, equal times of arrival, no cap: nothing raises."""
        self.serve(self.any_scheduler(), {0: odd_requests(**self.request_fields)})

    def test_pausing_admits_none(self) -> None:
        """Running requests go on; waiting ones come in after ``resume``."""
        scheduler = self.any_scheduler()
        driver = Driver(scheduler)
        driver.add(make_request("before", 3, 4, **self.request_fields))
        driver.turn()
        scheduler.pause()
        driver.add(make_request("after", 3, 4, **self.request_fields))
        for _ in range(6):
            driver.turn()
        assert list(scheduler.requests) == ["after"]
        scheduler.resume()
        driver.finish()

    def test_signals_are_heeded_by_the_next_step(self) -> None:
        """A signal that no request waits for changes nothing; a key is a string."""
        scheduler = self.any_scheduler()
        scheduler.signal("no request waits for it")
        assert scheduler.has_signals
        scheduler.update_from_output(scheduler.schedule(), ModelOutput())
        assert not scheduler.has_signals
        with pytest.raises(TypeError):
            scheduler.signal(7)

    def test_plans_are_updated_in_their_order(self) -> None:
        """A plan more than ``pipeline_depth``, and a plan out of turn, are refused."""
        scheduler = self.any_scheduler(scheduler={"pipeline_depth": 2})
        scheduler.add_request(make_request("r", 3, 5, **self.request_fields))
        first, second = scheduler.schedule(), scheduler.schedule()
        with pytest.raises(StepError):
            scheduler.schedule()
        with pytest.raises(StepError):
            scheduler.update_from_output(second, ModelOutput(["r"], [[9]]))
        outputs = scheduler.update_from_output(first, ModelOutput(["r"], [[9]]))
        assert outputs.new_token_ids == [[9]]
        scheduler.close()

    def test_observers_are_told_all(self) -> None:
        """Each step, each token, and each request from its arrival to its end."""
        scheduler = self.any_scheduler(observer=[{"use": Witness.name}])
        driver = self.serve(scheduler, self.arrivals(2), aborts=5)
        (witness,) = scheduler.components.observers
        assert isinstance(witness, Witness)
        assert witness.tokens == driver.recorder.outputs
        grants = [grants for _, grants, _ in witness.records]
        assert grants == driver.recorder.grants
        assert scheduler.summaries() == {Witness.name: {"steps": len(grants)}}
        assert all(sum(grants.values()) <= budget for _, grants, budget in witness.records)
        for request in driver.requests:
            first, *_, last = events = witness.events[request.request_id]
            assert (first, last, events.count("finish")) == ("add", "finish", 1)

    def test_same_seed_decides_the_same(self) -> None:
        """Same seed, same requests, same configuration: the same plans."""
        first, second = (self.serve(self.any_scheduler(), self.arrivals(7)) for _ in range(2))
        assert first.recorder.plans == second.recorder.plans

    def test_empty_steps_are_plans(self) -> None:
        """Without a request there is nothing to compute, and nothing to wait for."""
        scheduler = self.any_scheduler()
        assert not scheduler.has_unfinished
        plan = scheduler.schedule()
        assert plan.is_empty
        assert not scheduler.awaits_outside
        assert not scheduler.awaits_resource
        assert plain(plan)["num_scheduled_tokens"] == []
        assert scheduler.update_from_output(plan, ModelOutput()).req_ids == []
        assert scheduler.reset_prefix_cache() is True
        scheduler.close()

    def plugins(self, cls: type[Any] | None = None) -> PluginManager:
        return super().plugins(cls).with_component("observer", Witness)

    def _token(self, scheduler: SchedulerBase, request_id: str) -> list[int]:
        """One token, if the plan has reached the request's last known one."""
        request: Request = scheduler.requests[request_id]
        return [9] if request.num_new_tokens <= 0 else []
