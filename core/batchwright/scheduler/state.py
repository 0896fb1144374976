"""State that the parts of the scheduler share: requests by place, and what components see."""

from __future__ import annotations

import sys
from collections import deque

from batchwright.bell import Bell
from batchwright.callers.events import Events
from batchwright.callers.guard import Guard
from batchwright.callers.policy import Policy
from batchwright.callers.predictor import Predictions
from batchwright.clock import Clock
from batchwright.compat import COMPAT
from batchwright.config.sections import SchedulerSection
from batchwright.context import Sizes
from batchwright.counters import SharedCount
from batchwright.counts import Counts
from batchwright.decode_batch import DecodeBatch
from batchwright.groups import Groups
from batchwright.protocols.components import Components
from batchwright.request import Finish, Request, RequestStatus
from batchwright.scheduler.in_flight import InFlight
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.scheduler.waiting import WaitingRequests
from batchwright.step_view import StepView
from batchwright.timers import ClockTimers, TokenTimers
from batchwright.usage import UsageByAccount


class State:
    """The requests by place, what is in flight, and what is to be told.

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
        view: The state as components see it; set by the scheduler.
    """

    view: StepView

    def __init__(
        self,
        components: Components,
        settings: SchedulerSection,
        sizes: Sizes,
        clock: Clock,
        guard: Guard,
    ) -> None:
        self.components = components
        self.settings = settings
        self.compat = COMPAT[settings.compat]
        self.sizes = sizes
        self.clock = clock
        self.kv = components.kv
        self.requests: dict[str, Request] = {}
        self.running: dict[str, Request] = {}
        self.paused: dict[str, Request] = {}
        self.num_slots = 1 + sum(1 for _ in (*components, *components.subcomponents()))
        self.policy = Policy(components.policy, guard)
        self.waiting = WaitingRequests(self.policy)
        self.in_flight = InFlight(self.kv)
        self.step = self.idle_step = StepInProgress(now=clock.now())
        self.step_id = 0
        self.finished_ids: list[str] = []
        self.ended: dict[str, Finish] = {}
        self.to_end: list[tuple[str, RequestStatus, str]] = []
        self.signals: deque[str] = deque()
        self.bell = Bell()
        self.admission_paused = False
        self.has_changed = True
        self._next_running_order = 0
        self._least_free_blocks = sys.maxsize
        self._serve_components(guard)

    def _serve_components(self, guard: Guard) -> None:
        """Make what components see, are told, and set."""
        components, sizes, settings = self.components, self.sizes, self.settings
        self.decode_batch = DecodeBatch(
            sizes.block_size,
            sizes.num_lookahead_tokens,
            self.running,
            is_enabled=settings.pipeline_depth == 1
            and not any(limit.affects_decode for limit in components.limits),
        )
        self.step_count = SharedCount()
        self.usage = UsageByAccount(self.decode_batch.count, self.step_count)
        self.token_timers = TokenTimers(self.requests, self.decode_batch)
        self.clock_timers = ClockTimers()
        self.predictions = Predictions(components.predictor, self.requests, guard)
        self.groups = Groups(settings.group_time_to_live)
        self.events = Events(components, guard)
        self.counts = Counts()

    def start_running(self, request: Request) -> None:
        """Append a request to those that run."""
        request.running_order = self._next_running_order
        self._next_running_order += 1
        self.running[request.request_id] = request

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
        free = self.kv.num_free_blocks
        if free < self._least_free_blocks:
            self._least_free_blocks = free
            self.counts.most_used_blocks = self.kv.num_usable_blocks - free
