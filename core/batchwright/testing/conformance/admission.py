"""Conformance of gates, controls, limits and resources."""

from __future__ import annotations

from typing import ClassVar

from attrs import astuple

from batchwright.protocols import Caps
from batchwright.request_view import RequestView
from batchwright.scheduler import Scheduler
from batchwright.testing.conformance.serving import ServingConformance
from batchwright.testing.requests import make_request
from batchwright.verdicts import Admit, Defer, Reject, Stop, Wait

NUM_WAITING = 200


class GateConformance(ServingConformance):
    """Check a gate: its answers and their reasons, the requests it is asked about, its cost."""

    kind: ClassVar[str] = "gate"
    may_refuse: ClassVar[bool] = True

    def test_answers_are_verdicts_with_reasons(self) -> None:
        """Each phase answers what it may; a request that is held back has a reason."""
        for seed in range(3):
            spy, scheduler = self.spied()
            self.serve(scheduler, self.arrivals(seed))
            allowed = {
                "pre_enqueue": Admit | Reject | Wait,
                "pre_filter": Admit | Defer | Stop | Reject | Wait,
                "filter": Admit | Defer | Stop | Reject | Wait,
                "open": bool,
            }
            for method, types in allowed.items():
                for call in spy.of(method):
                    assert isinstance(call.answer, types), f"{method}() answered {call.answer!r}"
                    if not isinstance(call.answer, Admit | bool):
                        assert call.answer.reason, f"{method}() gave no reason: {call.answer}"

    def test_only_waiting_requests_are_judged(self) -> None:
        """A gate is never asked about a request that runs."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals())
        for method in ("pre_enqueue", "pre_filter", "filter"):
            assert not any(call.was_running for call in spy.of(method))

    def test_request_that_is_alone_is_served(self) -> None:
        """With nothing else there, it enters within a few steps, or is rejected."""
        _, scheduler = self.spied()
        driver = self.driver(scheduler)
        self._arrive(driver, [make_request("alone", 20, 5, **self.request_fields)])
        for _ in range(8):
            self.before_step(driver)
            driver.turn()
        assert not scheduler.num_waiting, [r.waiting_reason for r in scheduler.requests.values()]
        assert scheduler.progress_guard.num_interventions == 0

    def test_candidates_are_few_however_many_wait(self) -> None:
        """A request that it defers names a key, or counts against the scan's window."""
        spy, scheduler = self.spied(scheduler={"max_num_seqs": 8, "scan_window": 16})
        driver = self.driver(scheduler)
        requests = [make_request(f"w{n}", 5, 30, **self.request_fields) for n in range(NUM_WAITING)]
        self._arrive(driver, requests)
        for _ in range(3):
            driver.turn()
        spy.calls.clear()
        num_steps = 10
        for _ in range(num_steps):
            self.before_step(driver)
            driver.turn()
        asked = len(spy.of("pre_filter"))
        assert asked <= num_steps * (8 + 16 + 1), f"{asked} candidates in {num_steps} steps"

    def test_scan_is_asked_at_most_once_a_step(self) -> None:
        spy, scheduler = self.spied()
        driver = self.serve(scheduler, self.arrivals())
        assert len(spy.of("open")) <= len(driver.recorder.plans)


class ControlConformance(ServingConformance):
    """Check a step control: its caps, and that they never stop everything."""

    kind: ClassVar[str] = "control"

    def test_caps_are_counts(self) -> None:
        """None, or Caps with whole numbers from 0 on."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals())
        for call in spy.of("caps"):
            assert call.answer is None or isinstance(call.answer, Caps)
            for value in astuple(call.answer) if call.answer else ():
                assert value is None or (type(value) is int and value >= 0), call.answer

    def test_caps_are_asked_at_most_once_a_step(self) -> None:
        spy, scheduler = self.spied()
        driver = self.serve(scheduler, self.arrivals())
        assert len(spy.of("caps")) <= len(driver.recorder.plans)

    def test_request_that_is_alone_is_served(self) -> None:
        """A control that waits for company waits for a bounded time."""
        scheduler = self.scheduler()
        self.serve(scheduler, {0: [make_request("alone", 20, 5, **self.request_fields)]})
        assert scheduler.progress_guard.num_interventions == 0


class LimitConformance(ServingConformance):
    """Checks of a limit: its answers are numbers of tokens, for the requests that it asks for."""

    kind: ClassVar[str] = "limit"

    def test_answers_are_grants(self) -> None:
        """A whole number from 0 to what it was asked about."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals())
        for call in spy.of("max_tokens"):
            num_tokens = call.arguments[1]
            assert type(call.answer) is int, f"max_tokens() answered {call.answer!r}"
            assert 0 <= call.answer <= num_tokens

    def test_decodes_are_left_alone_unless_it_says_otherwise(self) -> None:
        """Without ``affects_decode`` it is not asked about one token, and has no say."""
        if self.component.affects_decode:
            return
        driver = self.driver(self.scheduler())
        limit = driver.scheduler.components.limits[0]
        for requests in self.arrivals().values():
            self._arrive(driver, requests)
        for _ in range(10):
            driver.turn()
            for request in driver.scheduler.view.running:
                assert limit.max_tokens(request, 1, driver.scheduler.view) == 1


class ResourceConformance(ServingConformance):
    """Check a resource: each reservation ends once, and nothing else does."""

    kind: ClassVar[str] = "resource"
    may_refuse: ClassVar[bool] = True

    def test_reservations_and_releases_come_in_pairs(self) -> None:
        """Through admissions that fail, preemptions, aborts and a lost executor."""
        for seed in range(3):
            spy, scheduler = self.spied()
            self.serve(scheduler, self.arrivals(seed), aborts=seed)
            held: dict[str, None] = {}
            for call in spy.calls:
                request = call.request
                if request is None or call.method not in ("reserve", "unreserve"):
                    continue
                if call.method == "unreserve":
                    assert request.request_id in held
                    del held[request.request_id]
                elif call.answer:
                    assert request.request_id not in held
                    held[request.request_id] = None
            assert held == {}

    def test_answers_are_what_they_should_be(self) -> None:
        """``reserve`` a truth value, ``never`` a reason, ``waits_for`` a key."""
        spy, scheduler = self.spied()
        self.serve(scheduler, self.arrivals())
        assert all(isinstance(call.answer, bool) for call in spy.of("reserve"))
        for method in ("never", "waits_for"):
            for call in spy.of(method):
                assert call.answer is None or (isinstance(call.answer, str) and call.answer)

    def test_reserve_that_fails_takes_nothing(self) -> None:
        """Asked again without a change in between, it answers the same."""
        scheduler = self.scheduler()
        resource = scheduler.components.resources[0]
        views = self._views(scheduler)
        taken = []
        for view in views:
            if resource.reserve(view):
                taken.append(view)
            else:
                assert not resource.reserve(view)
        for view in taken:
            resource.unreserve(view)
        again = [view for view in views if resource.reserve(view)]
        assert again == taken

    def _views(self, scheduler: Scheduler) -> list[RequestView]:
        """Requests that wait."""
        driver = self.driver(scheduler)
        scheduler.pause()
        for requests in self.arrivals().values():
            self._arrive(driver, requests)
        return [request.view for request in scheduler.requests.values()]
