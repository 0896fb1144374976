"""The calls of components around the steps of vLLM's scheduler."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from batchwright.callers.events import Events, Timers
from batchwright.callers.guard import ANYTHING, Guard
from batchwright.callers.policy import Policy
from batchwright.callers.predictor import Predictions
from batchwright.config import Config
from batchwright.context import Sizes
from batchwright.counters import SharedCount
from batchwright.counts import Counts
from batchwright.groups import Groups
from batchwright.protocols import Observer
from batchwright.protocols.component import defines
from batchwright.request import Finish
from batchwright.timers import ClockTimers
from batchwright.usage import UsageByAccount
from batchwright_vllm.admission import Admission
from batchwright_vllm.admitted import Admitted
from batchwright_vllm.budgets import Budgets
from batchwright_vllm.charges import Charges
from batchwright_vllm.components import build_components
from batchwright_vllm.ends import detail_of
from batchwright_vllm.engine_clock import EngineClock
from batchwright_vllm.policy_queue import PolicyQueue
from batchwright_vllm.preempting import Preempting
from batchwright_vllm.progress import Progress
from batchwright_vllm.records import outputs_of, record_of
from batchwright_vllm.served_request import VllmRequest
from batchwright_vllm.services import VllmServices
from batchwright_vllm.step_view import VllmStepView
from batchwright_vllm.token_timers import TokenTimers

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

__all__ = ["Hooks"]

_log = logging.getLogger("batchwright.vllm")


class Hooks:
    """The state that components see, and the events that they are told of.

    Args:
        scheduler: vLLM's, constructed.
        config: The configuration.
        sizes: The sizes of the run.

    Attributes:
        served: The live requests by id.
        queue: The waiting requests in the policy's order.
        now: Seconds on the clock at the beginning of the step.
        budget: Tokens that this step may schedule.
        num_scheduled_tokens: Tokens that were scheduled so far in this step.
        admitted: Requests that were admitted so far in this step.
        num_in_flight: Steps that are planned and not updated.
        has_changed: True if anything happened since the policy was asked what to preempt.
        preempted: Requests that were preempted since the last step, with the reason why.
    """

    def __init__(self, scheduler: Any, config: Config, sizes: Sizes) -> None:
        self.scheduler = scheduler
        self.config = config
        self.sizes = sizes
        self.clock = EngineClock()
        self.guard = Guard(
            sys.maxsize,  # faults in a row end no run: the server outlives a plugin
            config.scheduler.slow_component_seconds,
            self.clock,
        )
        self.components = build_components(config, sizes, self.clock)
        self.served: dict[str, VllmRequest] = {}
        self.policy = Policy(self.components.policy, self.guard)
        self.queue = PolicyQueue(self.policy, self.served, self._fail)
        self.view = VllmStepView(self)
        self.services = VllmServices(self)
        self.counts = Counts()
        self.step_count = SharedCount()
        self.usage = UsageByAccount(SharedCount(), self.step_count)
        self.groups = Groups(config.scheduler.group_time_to_live)
        self.clock_timers = ClockTimers()
        self.token_timers = TokenTimers(self.served)
        self._timers = Timers(self.guard)
        self.predictions = Predictions(
            self.components.predictor, cast("Any", self.served), self.guard
        )
        self.events = Events(cast("Any", self.components), self.guard)
        self.signals: deque[str] = deque()
        self._reasons: dict[str, str] = {}
        self.admitted = Admitted(self)
        self.preempted: dict[str, str] = {}
        self.step_id = 0
        self.now = self.clock.now()
        self.budget = scheduler.max_num_scheduled_tokens
        self.num_scheduled_tokens = 0
        self.num_in_flight = 0
        self.has_changed = True
        self.cause = "shortage"
        self._num_slots = sum(1 for _ in (*self.components, *self.components.subcomponents()))
        self._plans: deque[int] = deque()
        self.charges = Charges(self)
        self.admission = Admission(self)
        self.budgets = Budgets(self)
        self.preempting = Preempting(self)
        self._progress = Progress(self)
        observers = self.components.observers
        self._flushed = [one for one in observers if defines(one, Observer.flush)]
        if self.events.on_admit.listeners:
            self.queue.before_choice = self.admitted.note
        self._can_stall = self.budgets.is_needed
        self._beginnings: list[Callable[[], None]] = []
        if self.budgets.is_needed:
            self._beginnings = [self._progress.begin, self.budgets.begin, self.admission.begin]
        if self.preempting.is_needed:
            self._beginnings.append(self.preempting.begin)

    def start(self) -> None:
        """Set the components up."""
        for component in (*self.components, *self.components.subcomponents()):
            component.ctx.bind(self.services, component)
        for component in self.components:
            self.guard.set_up(component)

    def close(self) -> None:
        """Close the components."""
        for component in self.components:
            self.guard.close(component)

    # -- Requests --------------------------------------------------------------------

    def add(self, request: Request) -> VllmRequest:
        """Note a request that arrives; before vLLM queues it."""
        served = VllmRequest(request, self._num_slots, self.clock.at(request.arrival_time))
        self.served[served.request_id] = served
        if served.group is not None:
            self.groups.enter(served.group)
        self.charges.open(served)
        return served

    def added(self, served: VllmRequest) -> None:
        """Report a request that vLLM has queued; gates may reject it still."""
        self.has_changed = True
        self.admission.enqueue(served.request)
        self.events.on_add(served.view)

    def note_preemption(self, served: VllmRequest, lost_tokens: int) -> None:
        """Report a request that lost its blocks, and waits again."""
        self.has_changed = True
        cause, self.cause = self.cause, "shortage"
        self.preempted[served.request_id] = cause
        served.is_admitted = False
        self.charges.preempted(served, lost_tokens)
        self.queue.note_reason(served.request_id, f"preempted ({cause})")
        self.events.on_preempt(served.view, cause, lost_tokens)

    def finished(self, request: Request) -> None:
        """Report the end of a request, and forget it."""
        served = self.served.get(request.request_id)
        if served is None:
            return
        self.has_changed = True
        served.finish_time = self.clock.now()
        reason = self._reasons.pop(served.request_id, "")
        served.finish = Finish(served.status, detail_of(request, reason))
        self.admitted.forget(served.request_id)
        self.token_timers.forget(served)
        self.charges.finished(served)
        self.events.on_finish(served.view)
        self.queue.forget(served.view)
        if served.group is not None:
            self.groups.leave(served.group, served.finish_time)
        del self.served[served.request_id]

    def end(self, request_id: str, reason: str) -> None:
        """Have a live request ended with an error by the next update."""
        if request_id in self.served:
            self._reasons.setdefault(request_id, reason)
            self.scheduler.grammar_compile_error_reqs.add(request_id)
            _log.warning("request %r is ended: %s", request_id, reason)

    def is_ending(self, request_id: str) -> bool:
        """Tell whether a request will be ended by the next update."""
        return request_id in self._reasons

    def signal(self, key: str) -> None:
        """Bring back the requests of a key at the next step; from any thread.

        Raises:
            TypeError: The key is no string.
        """
        if not isinstance(key, str):
            raise TypeError(f"signal() takes the key as a string, not {key!r}")
        self.signals.append(key)

    def _fail(self, request: Request, detail: str) -> None:
        self.end(request.request_id, detail)

    # -- Steps -----------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a step: heed signals and timers."""
        self.now = now = self.clock.now()
        self.num_scheduled_tokens = 0
        self.admitted.by_id.clear()
        self.queue.begin_step()
        while self.signals:
            self.has_changed |= self.queue.wake(self.signals.popleft()) > 0
        if self.clock_timers.heap:
            for component, payload in list(self.clock_timers.take_due(now)):
                self.has_changed = True
                self._timers.on_timer(component, payload)
        if self.token_timers:
            for component, view, payload in self.token_timers.take_due():
                self.has_changed = True
                self._timers.on_tokens(component, view, payload)
        if now >= self.groups.next_expiry:
            self.groups.purge(now)
        for begin in self._beginnings:
            begin()

    def end_scans(self) -> None:
        """Undo what was changed in vLLM's scheduler for one step."""
        if self.budgets.is_needed:
            self.budgets.end()
        self.preempting.spare()

    def planned(self, output: SchedulerOutput) -> None:
        """Note a step that vLLM has planned."""
        self.admitted.note(output.num_scheduled_tokens)
        self.charges.planned(output.num_scheduled_tokens)
        num_tokens = output.total_num_scheduled_tokens
        self.num_scheduled_tokens = num_tokens
        counts = self.counts
        counts.steps += 1
        counts.empty_steps += not num_tokens
        counts.scheduled_tokens += num_tokens
        self.step_count.value += 1
        if self._can_stall:
            self._progress.planned(num_tokens)
        if self.events.on_step.listeners:
            self.events.on_step(record_of(output, self))
        self._plans.append(self.step_id)
        self.num_in_flight += 1
        self.step_id += 1
        self.preempted.clear()
        self.queue.new_reasons.clear()

    def updated(self, outputs: dict[int, Any]) -> None:
        """Note the oldest step in flight, whose results vLLM has taken over."""
        self.num_in_flight -= 1
        step_id = self._plans.popleft()
        self.admitted.note_first_tokens()
        if self.events.on_outputs.listeners:
            self.events.on_outputs(outputs_of(step_id, outputs))
        self.flush_if_idle()

    def flush_if_idle(self) -> None:
        """Have observers write what they hold back, since vLLM may kill its process at its end."""
        if not self.served:
            for observer in self._flushed:
                self.guard.ask(observer, observer.flush, ANYTHING)

    # -- Readings --------------------------------------------------------------------

    def block_ids(self, request_id: str) -> list[int]:
        """Return the block table of a request; of several KV groups, the first one's."""
        groups = self.scheduler.kv_cache_manager.get_block_ids(request_id)
        return list(groups[0]) if groups else []

    def admission_order(self) -> list[Request]:
        """Return the running requests of vLLM in order of admission."""
        return self.preempting.admission_order()
