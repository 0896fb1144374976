"""What the parts of the scheduler share."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from batchwright.clock import Clock
from batchwright.context import Sizes
from batchwright.counters import SharedCount
from batchwright.counts import Counts
from batchwright.decode_batch import DecodeBatch
from batchwright.groups import Groups
from batchwright.protocols import PrefixHit
from batchwright.protocols.component import overrides
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Finish, Request, RequestStatus
from batchwright.scheduler.announcer import Announcer
from batchwright.scheduler.bell import Bell
from batchwright.scheduler.components import Components
from batchwright.scheduler.draft import Draft
from batchwright.scheduler.faults import Faults, demand
from batchwright.scheduler.fence import Fence
from batchwright.scheduler.predictions import Predictions
from batchwright.scheduler.settings import SchedulerSettings
from batchwright.scheduler.waiting_room import WaitingRoom
from batchwright.step_view import StepView
from batchwright.timers import ClockTimers, TokenTimers
from batchwright.usage import UsageByAccount


class State:
    """The scheduler's state: who is where, what is in flight, what is to be told.

    Attributes:
        requests: All live requests by id.
        running: Those that run, in order of admission.
        paused: Those that wait but hold their blocks, in the order in which they paused.
        has_changed: Whether anything happened since the policy was asked who yields.
        room: Those that wait.
        fence: Steps in flight, and the blocks held back for them.
        draft: The plan being made; ``no_draft`` between steps.
        finished_ids: Ended since the last plan, for the executor.
        ended: Ended since the last update, for the caller.
        failed_ids: Requests that the last updated step could not compute.
        to_end: Requests to end, how and why, once what is going on is done.
        estimator_was_asked: Whether a component wanted to know how long steps take.
        signals: Keys that came between steps; other threads may add.
        bell: Rings when other threads brought something.
    """

    def __init__(
        self,
        components: Components,
        settings: SchedulerSettings,
        sizes: Sizes,
        clock: Clock,
        stopwatch: Clock,
    ) -> None:
        self.components = components
        self.settings = settings
        self.sizes = sizes
        self.clock = clock
        self.kv = components.kv
        self.requests: dict[str, Request] = {}
        self.running: dict[str, Request] = {}
        self.paused: dict[str, Request] = {}
        slow_after = settings.slow_component_seconds
        self.faults = Faults(settings.max_component_faults, slow_after, stopwatch)
        self.announcer = Announcer(components, self.faults)
        self.room = WaitingRoom(components.policy, self.faults)
        self.fence = Fence(self.kv)
        self.decode_batch = DecodeBatch(
            sizes.block_size,
            sizes.num_lookahead_tokens,
            self.running,
            is_enabled=settings.pipeline_depth == 1
            and not any(limit.affects_decode for limit in components.limits),
        )
        self.step_count = SharedCount()
        self.usage = UsageByAccount(self.decode_batch.count, self.step_count)
        self.keeps_usage = overrides(components.policy, "account")
        self.token_timers = TokenTimers(self.requests, self.decode_batch)
        self.clock_timers = ClockTimers()
        self.predictions = Predictions(components.predictor, self.requests, self.faults)
        self.groups = Groups(settings.group_time_to_live)
        self.view = StepView(self)
        self.counts = Counts()
        self.draft = self.no_draft = Draft()
        self.signals: deque[str] = deque()
        self.bell = Bell()
        self.finished_ids: list[str] = []
        self.ended: dict[str, Finish] = {}
        self.failed_ids: list[str] = []
        self.to_end: list[tuple[str, RequestStatus, str]] = []
        self.step_id = 0
        self.num_slots = 1 + sum(1 for _ in (*components, *components.subcomponents()))
        self.now = clock.now()
        self.admission_paused = False
        self.has_changed = True
        self.bypass_choices = False
        self.bypass_gates = False
        self.estimator_was_asked = False
        self._next_running_order = 0
        self._least_free_blocks = sys.maxsize

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

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-num_tokens // self.sizes.block_size)

    def note_used_blocks(self) -> None:
        """Keep the most blocks that were in use."""
        free = self.kv.num_free_blocks
        if free < self._least_free_blocks:
            self._least_free_blocks = free
            self.counts.most_used_blocks = self.kv.num_usable_blocks - free

    def fits_pool(self, num_tokens: int) -> bool:
        """Whether a request with so many tokens in the cache could run alone."""
        return self.num_blocks_for(num_tokens) <= self.kv.num_usable_blocks

    def allocate(
        self, request: Request, num_tokens: int, num_final: int, hit: PrefixHit = NO_HIT
    ) -> list[int] | None:
        """Ask the KV manager for slots.

        Raises:
            PluginError: It answered nonsense.
        """
        new = self.kv.allocate(request.view, num_tokens, num_final, hit)
        if type(new) is not list:
            demand(new is None, self.kv, "allocate", new, "block ids, or None")
        return new

    def call_back(self, component: Any, method: str, *arguments: Any) -> Any:
        """Call a component about something that happened; a fault is counted.

        Returns:
            Its answer; None if it failed.

        Raises:
            PluginError: It failed too often in a row.
        """
        self.has_changed = True
        return self.faults.ask(component, method, arguments)
