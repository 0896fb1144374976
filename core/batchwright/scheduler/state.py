"""State that the parts of the scheduler share, and the view that components have of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from attrs import define, field

from batchwright.bell import Bell
from batchwright.callers.controls import Controls
from batchwright.callers.events import Events, Timers
from batchwright.callers.features import Features
from batchwright.callers.gates import Gates
from batchwright.callers.guard import Guard
from batchwright.callers.kv import BlockPool
from batchwright.callers.limits import Limits
from batchwright.callers.policy import Policy
from batchwright.callers.predictor import Predictions
from batchwright.callers.resources import Resources
from batchwright.callers.victims import Victims
from batchwright.clock import Clock
from batchwright.compat import COMPAT, Compat
from batchwright.config.sections import SchedulerSection
from batchwright.context import Sizes
from batchwright.counters import SharedCount
from batchwright.counts import Counts
from batchwright.decode_batch import DecodeBatch
from batchwright.groups import Groups
from batchwright.protocols.components import Components
from batchwright.request import Finish, Request, RequestStatus
from batchwright.request_view import RequestView
from batchwright.scheduler.in_flight import InFlight
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.scheduler.waiting import WaitingRequests
from batchwright.step_view import Running, StepView
from batchwright.timers import ClockTimers, TokenTimers
from batchwright.usage import UsageByAccount

T = TypeVar("T")


@define(eq=False, slots=False)
class State:
    """The requests by place, what is in flight, what is to be told, and the callers.

    Args:
        components: Every choice, made.
        settings: Settings of the step itself.
        sizes: The fixed sizes of the run.
        clock: The only source of time for decisions.
        guard: Calls components.

    Attributes:
        requests: All live requests by id.
        running: Those that run, in order of admission.
        paused: Those that wait but hold their blocks, in the order in which they paused.
        waiting: Those that wait.
        in_flight: Steps in flight, and the blocks held back for them.
        step: The step that is being planned; between steps it is ``idle_step``.
        idle_step: Stands for a step while none is planned: nothing is in its plan.
        has_changed: Whether anything happened since the policy was asked who yields.
        finished_ids: Ended since the last plan, for the executor.
        ended: Ended since the last update, for the caller.
        to_end: Requests to end, how and why, once what is going on is done.
        signals: Keys that came between steps; other threads may add.
        bell: Rings when other threads brought something.
        num_admissions: Requests that were admitted so far.
        view: The state as components see it.
    """

    components: Components
    settings: SchedulerSection
    sizes: Sizes
    clock: Clock
    guard: Guard
    requests: dict[str, Request] = field(init=False, factory=dict)
    running: dict[str, Request] = field(init=False, factory=dict)
    paused: dict[str, Request] = field(init=False, factory=dict)
    waiting: WaitingRequests = field(init=False)
    in_flight: InFlight = field(init=False)
    step: StepInProgress = field(init=False)
    step_id: int = field(init=False, default=0)
    finished_ids: list[str] = field(init=False, factory=list)
    ended: dict[str, Finish] = field(init=False, factory=dict)
    to_end: list[tuple[str, RequestStatus, str]] = field(init=False, factory=list)
    signals: deque[str] = field(init=False, factory=deque)
    bell: Bell = field(init=False, factory=Bell)
    clock_timers: ClockTimers = field(init=False, factory=ClockTimers)
    step_count: SharedCount = field(init=False, factory=SharedCount)
    counts: Counts = field(init=False, factory=Counts)
    admission_paused: bool = field(init=False, default=False)
    has_changed: bool = field(init=False, default=True)
    num_admissions: int = field(init=False, default=0)
    compat: Compat = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._make_callers()
        self.compat = COMPAT[self.settings.compat]
        components, sizes, settings = self.components, self.sizes, self.settings
        self.num_slots = 1 + sum(1 for _ in (*components, *components.subcomponents()))
        self.waiting = WaitingRequests(self.policy)
        self.in_flight = InFlight(self.kv)
        self.step = self.idle_step = StepInProgress(now=self.clock.now())
        self.decode_batch = DecodeBatch(
            sizes.block_size,
            sizes.num_lookahead_tokens,
            self.running,
            is_enabled=settings.pipeline_depth == 1
            and not any(limit.affects_decode for limit in components.limits),
        )
        self.usage = UsageByAccount(self.decode_batch.count, self.step_count)
        self.token_timers = TokenTimers(self.requests, self.decode_batch)
        self.groups = Groups(settings.group_time_to_live)
        self.view = SchedulerView(self)

    def _make_callers(self) -> None:
        components, guard = self.components, self.guard
        self.kv = components.kv
        self.blocks = BlockPool(components.kv, self.sizes)
        self.policy = Policy(components.policy, guard)
        self.gates = Gates(components.gates, guard)
        self.limits = Limits(components.limits, guard)
        self.resources = Resources(components.resources, guard)
        self.features = Features(components.features, guard)
        self.controls = Controls(components.controls, guard)
        self.victims = Victims(components.victim, components.preemption, guard)
        self.predictions = Predictions(components.predictor, self.requests, guard)
        self.events = Events(components, guard)
        self.timers = Timers(guard)

    def signal(self, key: str) -> None:
        """Have a key heeded at the next step; from any thread.

        Raises:
            TypeError: The key is no string.
        """
        if not isinstance(key, str):
            raise TypeError(f"signal() takes the key as a string, not {key!r}")
        self.signals.append(key)
        self.bell.ring()

    def note_used_blocks(self) -> None:
        """Keep the most blocks that were in use."""
        num_used = self.kv.num_usable_blocks - self.kv.num_free_blocks
        if num_used > self.counts.most_used_blocks:
            self.counts.most_used_blocks = num_used


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


def _reads(read: Callable[[SchedulerView], T]) -> T:
    """Make an attribute of the view that is read from the state, and cannot be set."""
    return cast("T", property(read))


class SchedulerView(StepView):
    """The step view of this scheduler."""

    __slots__ = ("_num_given_blocks", "_num_giving", "_running", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self.suppose({})

    def suppose(self, leaving: Mapping[str, Request], num_blocks: int = 0) -> None:
        """Show the scheduler as if some running requests waited.

        Args:
            leaving: Running requests that would be preempted for the one that is judged.
            num_blocks: Blocks that would be free besides those that are.
        """
        running = self._state.running
        if leaving:
            running = {name: request for name, request in running.items() if name not in leaving}
        self._running = RunningRequests(running)
        self._num_giving = len(self._state.running) - len(running)
        self._num_given_blocks = num_blocks

    running = _reads(lambda view: view._running)
    step_id = _reads(lambda view: view._state.step_id)
    now = _reads(lambda view: view._state.step.now)
    num_running = _reads(lambda view: len(view._running))
    num_waiting = _reads(lambda view: len(view._state.waiting) + view._num_giving)
    num_parked = _reads(lambda view: view._state.waiting.num_parked)
    num_in_flight = _reads(lambda view: len(view._state.in_flight.steps))
    num_prompt_tokens_waiting = _reads(lambda view: view._state.waiting.num_prompt_tokens)
    num_usable_blocks = _reads(lambda view: view._state.kv.num_usable_blocks)
    num_free_blocks = _reads(lambda view: view._state.kv.num_free_blocks + view._num_given_blocks)
    num_tokens_left = _reads(lambda view: view._state.step.num_tokens_left)
    num_scheduled_tokens = _reads(lambda view: view._state.step.num_scheduled_tokens)
    num_admitted = _reads(lambda view: len(view._state.step.admitted))
    next_timer = _reads(lambda view: view._state.clock_timers.next_time)
    is_paused = _reads(lambda view: view._state.admission_paused)
    unreported_ends = _reads(lambda view: view._state.ended)
    failed_ids = _reads(lambda view: view._state.in_flight.failed_ids)

    @property
    def num_owed_blocks(self) -> int:
        unfinished, num_needed = self._state.step.unfinished, self._state.kv.num_needed
        if not unfinished:
            return 0
        return sum(num_needed(request.view, request.num_tokens) for request in unfinished.values())

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
