"""The calls of components around the steps of vLLM's scheduler."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping
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
from batchwright_vllm.budgets import Budgets
from batchwright_vllm.components import build_components
from batchwright_vllm.ends import detail_of
from batchwright_vllm.epoch_clock import EpochClock
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
        num_admitted: Requests that were admitted so far in this step.
        num_in_flight: Steps that are planned and not updated.
        has_changed: True if anything happened since the policy was asked what to preempt.
        preempted: Requests that were preempted since the last step, with the reason why.
    """

    def __init__(self, scheduler: Any, config: Config, sizes: Sizes) -> None:
        self.scheduler = scheduler
        self.config = config
        self.sizes = sizes
        self.clock = EpochClock()
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
        self._awaits_first: dict[str, VllmRequest] = {}
        self.admitted: dict[str, VllmRequest] = {}
        self.preempted: dict[str, str] = {}
        self.step_id = 0
        self.now = self.clock.now()
        self.budget = scheduler.max_num_scheduled_tokens
        self.num_scheduled_tokens = 0
        self.num_admitted = 0
        self.num_in_flight = 0
        self.has_changed = True
        self.cause = "shortage"
        self._num_slots = sum(1 for _ in (*self.components, *self.components.subcomponents()))
        self._plans: deque[int] = deque()
        self.admission = Admission(self)
        self.budgets = Budgets(self)
        self.preempting = Preempting(self)
        self._progress = Progress(self)
        observers = self.components.observers
        self._flushed = [one for one in observers if defines(one, Observer.flush)]
        if self.events.on_admit.listeners:
            self.queue.before_choice = self.note_admissions
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
        served = VllmRequest(request, self._num_slots, request.arrival_time)
        self.served[served.request_id] = served
        if served.group is not None:
            self.groups.enter(served.group)
        if self.policy.keeps_accounts:
            served.usage = self.usage.open(self.policy.account(served.view))
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
        served.high_water = max(served.high_water, lost_tokens)
        self._change_blocks(served, 0)
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
        self._awaits_first.pop(served.request_id, None)
        self.token_timers.forget(served)
        self._change_blocks(served, 0)
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
        self.num_scheduled_tokens = self.num_admitted = 0
        self.admitted.clear()
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
        self.note_admissions(output.num_scheduled_tokens)
        if self.policy.keeps_accounts:
            self._charge(output)
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
        if self._awaits_first:
            now = self.clock.now()
            for request_id, served in list(self._awaits_first.items()):
                if served.num_output_tokens:
                    served.first_token_time = now
                    del self._awaits_first[request_id]
        if self.events.on_outputs.listeners:
            self.events.on_outputs(outputs_of(step_id, outputs))
        self.flush_if_idle()

    def flush_if_idle(self) -> None:
        """Have observers write what they hold back, since vLLM may kill its process at its end."""
        if not self.served:
            for observer in self._flushed:
                self.guard.ask(observer, observer.flush, ANYTHING)

    def note_admissions(self, scheduled: Mapping[str, int] | None = None) -> None:
        """Report the requests that the scan has admitted since the last call.

        Args:
            scheduled: The scheduled tokens of the step, once vLLM has counted them as computed.
        """
        new = []
        for request in reversed(self.scheduler.running):
            served = self.served[request.request_id]
            if served.is_admitted:
                break
            new.append(served)
        for served in reversed(new):
            num_new = 0 if scheduled is None else scheduled[served.request_id]
            self._admit(served, served.num_computed_tokens - num_new)

    def _admit(self, served: VllmRequest, hit: int) -> None:
        request_id = served.request_id
        served.is_admitted = True
        self.admitted[request_id] = served
        self.num_admitted += 1
        self.has_changed = True
        self.preempting.note_admission(served)
        if served.scheduled_time is None:
            served.scheduled_time = self.now
            served.num_cached_tokens = hit
            self._awaits_first[request_id] = served
        served.waiting_reason = ""
        self.events.on_admit(served.view, hit, len(self.block_ids(request_id)))

    def _charge(self, output: SchedulerOutput) -> None:
        """Charge the tokens of a step to the accounts of their requests."""
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            served = self.served[request_id]
            usage = served.usage
            if usage is None:
                continue
            if request_id in self.admitted:
                usage.cached_tokens += served.num_computed_tokens - num_tokens
            again = min(num_tokens, served.high_water - served.num_computed_tokens + num_tokens)
            if again > 0:
                served.num_recomputed_tokens += again
                usage.recomputed_tokens += again
            if num_tokens > 1:
                usage.prefill_tokens += num_tokens
            else:
                usage.add_decode_tokens(num_tokens)
            self._change_blocks(served, len(self.block_ids(request_id)))

    def _change_blocks(self, served: VllmRequest, num_blocks: int) -> None:
        if served.usage is not None and num_blocks != served.num_blocks:
            served.usage.change_num_blocks(num_blocks - served.num_blocks)
            served.num_blocks = num_blocks

    # -- Readings --------------------------------------------------------------------

    def describe(self) -> str:
        """Return a line about the components that take part, for the log."""
        names = [f"policy {self.components.policy.name}", f"victim {self.components.victim.name}"]
        for kind in ("gates", "controls", "limits", "observers"):
            found = [component.name for component in getattr(self.components, kind)]
            names += [f"{kind} {', '.join(found)}"] if found else []
        source = self.config.source or "no TOML file"
        return f"{type(self.scheduler).__name__}: {'; '.join(names)} ({source})"

    def block_ids(self, request_id: str) -> list[int]:
        """Return the block table of a request; of several KV groups, the first one's."""
        groups = self.scheduler.kv_cache_manager.get_block_ids(request_id)
        return list(groups[0]) if groups else []

    def admission_order(self) -> list[Request]:
        """Return the running requests of vLLM in order of admission."""
        return self.preempting.admission_order()
