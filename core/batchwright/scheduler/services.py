"""The view of this scheduler's step, and its services for components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from batchwright.compat import Compat
from batchwright.counts import Counts
from batchwright.messages import SchedulerOutput
from batchwright.protocols import Component, Estimator
from batchwright.request import Finish, Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.runtime_services import RuntimeServices
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.step_record import StepRecord
from batchwright.step_view import Running, StepView
from batchwright.usage import UsageByAccount


class RunningRequests(Running):
    """Running requests in order of admission.

    Args:
        requests: The scheduler's own; not copied.
    """

    __slots__ = ("_requests",)

    def __init__(self, requests: dict[str, Request]) -> None:
        self._requests = requests

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RequestView]:
        return (request.view for request in self._requests.values())

    def __reversed__(self) -> Iterator[RequestView]:
        return (request.view for request in reversed(self._requests.values()))

    def __contains__(self, request: object) -> bool:
        if not isinstance(request, RequestView):
            return False
        mine = self._requests.get(request.request_id)
        return mine is not None and mine.view is request


class SchedulerView(StepView):
    """The step view of this scheduler."""

    __slots__ = ("_num_given_blocks", "_num_giving", "_running", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._running = RunningRequests(state.running)
        self._num_giving = 0
        self._num_given_blocks = 0

    @property
    def running(self) -> RunningRequests:
        return self._running

    @property
    def step_id(self) -> int:
        return self._state.step_id

    @property
    def now(self) -> float:
        return self._state.step.now

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._state.waiting) + self._num_giving

    @property
    def num_parked(self) -> int:
        return self._state.waiting.num_parked

    @property
    def num_in_flight(self) -> int:
        return len(self._state.in_flight.steps)

    @property
    def num_prompt_tokens_waiting(self) -> int:
        return self._state.waiting.num_prompt_tokens

    @property
    def num_usable_blocks(self) -> int:
        return self._state.kv.num_usable_blocks

    @property
    def num_free_blocks(self) -> int:
        return self._state.kv.num_free_blocks + self._num_given_blocks

    @property
    def num_owed_blocks(self) -> int:
        unfinished, num_needed = self._state.step.unfinished, self._state.kv.num_needed
        if not unfinished:
            return 0
        return sum(num_needed(request.view, request.num_tokens) for request in unfinished.values())

    @property
    def num_tokens_left(self) -> int:
        return self._state.step.num_tokens_left

    @property
    def num_scheduled_tokens(self) -> int:
        return self._state.step.num_scheduled_tokens

    @property
    def num_admitted(self) -> int:
        return self._state.step.num_admitted

    @property
    def next_timer(self) -> float | None:
        return self._state.clock_timers.next_time

    @property
    def is_paused(self) -> bool:
        return self._state.admission_paused

    @property
    def unreported_ends(self) -> Mapping[str, Finish]:
        return self._state.ended

    @property
    def failed_ids(self) -> Sequence[str]:
        return self._state.in_flight.failed_ids

    def next_waiting(self, count: int) -> list[RequestView]:
        return self._state.components.policy.queue.first(count)

    def request(self, request_id: str) -> RequestView | None:
        request = self._state.requests.get(request_id)
        return request.view if request is not None else None

    def block_ids(self, request: RequestView) -> list[int]:
        return self._state.kv.block_ids(request)

    def num_own_blocks(self, request: RequestView) -> int:
        return self._state.kv.num_own_blocks(request)

    def published_blocks(self) -> Iterator[int]:
        return iter(self._state.kv.published_blocks())

    def audit(self) -> Iterator[str]:
        return self._state.kv.audit(self._state.in_flight.deferred_blocks())


@contextmanager
def supposing(view: StepView, giving: dict[str, Request], num_blocks: int) -> Iterator[None]:
    """Let a view show the scheduler as if some running requests waited.

    Args:
        view: The view.
        giving: Running requests that would be preempted for the one that is judged.
        num_blocks: Blocks that would be free besides those that are.
    """
    assert isinstance(view, SchedulerView)
    running = view._state.running
    staying = {name: request for name, request in running.items() if name not in giving}
    view._running, view._num_giving = RunningRequests(staying), len(running) - len(staying)
    view._num_given_blocks = num_blocks
    try:
        yield
    finally:
        view._running, view._num_giving = RunningRequests(running), 0
        view._num_given_blocks = 0


def record_of(plan: SchedulerOutput, step: StepInProgress, state: State) -> StepRecord:
    """Return a plan and its circumstances, for observers."""
    return StepRecord(
        plan=plan,
        view=state.view,
        budget=step.budget,
        visited=step.num_new_tokens,
        num_batched=step.num_batched,
        new_blocks=step.tables,
        waiting_reasons=state.waiting.new_reasons,
        shortage=step.shortage,
        stopped_by=step.stopped_by,
        preempted_for=step.preempted_for,
        admitted=step.admitted,
    )


class SchedulerServices(RuntimeServices):
    """The services of this scheduler."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.estimator_was_asked = False

    @property
    def view(self) -> StepView:
        return self._state.view

    @property
    def counts(self) -> Counts:
        return self._state.counts

    @property
    def compat(self) -> Compat:
        return self._state.compat

    @property
    def usage(self) -> UsageByAccount:
        return self._state.usage

    @property
    def estimator(self) -> Estimator:
        return self._state.components.estimator

    def prefix_hit(self, request: RequestView) -> int:
        return self._state.kv.hit_length(request)

    def predict(self, requests: Sequence[RequestView], *, anew: bool) -> list[float]:
        return self._state.predictions.of(requests, anew=anew)

    def group_data(self, name: str, slot: int) -> dict[str, Any]:
        return self._state.groups.state(name, slot)

    def call_at_tokens(
        self, request: RequestView, num_computed_tokens: int, component: Component, payload: Any
    ) -> None:
        self._state.token_timers.set(request, num_computed_tokens, component, payload)

    def call_at(self, time: float, component: Component, payload: Any) -> None:
        self._state.clock_timers.set(time, (component, payload))

    def end(self, request: RequestView, reason: str) -> None:
        self._state.to_end.append((request.request_id, RequestStatus.FINISHED_ERROR, reason))

    def signal(self, key: str) -> None:
        self._state.signal(key)
