"""Leaps: many steps at once, where a step decides nothing.

While all running requests are in steady decode and none can be admitted, each step grants
each of them one token, until something happens: an arrival, an end, a mark, an alarm, a
shortage of blocks. What these steps do is known beforehand, so it is done for all of them
together; the state that they leave is the one that stepping leaves, block ids included.

A leap makes no plans. A component that watches plans, or is asked at every step, switches
leaping off by being there.
"""

from __future__ import annotations

from array import array
from collections import deque
from operator import attrgetter
from typing import Final

from batchwright.messages import Leap, LeapOutput
from batchwright.protocols.component import overrides
from batchwright.request import Finish
from batchwright.scheduler.results import Results
from batchwright.scheduler.state import State

_MOST_STEPS: Final = 1 << 16
_view = attrgetter("view")


class Leaps:
    """Says how far nothing is decided, and commits what was computed till then.

    Args:
        state: The scheduler's.
        results: Ends what has reached its end.
    """

    def __init__(self, state: State, results: Results) -> None:
        self._state = state
        self._results = results
        components, events = state.components, state.events
        self._is_possible = (
            state.steady.enabled
            and not state.sizes.num_lookahead_tokens
            and overrides(components.kv, "leap")
            and not components.features
            and not any(overrides(control, "caps") for control in components.controls)
            and not events.on_step
            and not events.on_outputs
        )
        self._caches = state.sizes.enable_prefix_caching
        policy = components.policy
        self._asks_who_waits = (
            overrides(policy, "running_to_preempt")
            or overrides(policy, "preempts")
            or any(overrides(gate, "open") for gate in components.gates)
        )

    def plan(self, until: float) -> Leap | None:
        """The steps that decide nothing, from now on.

        Args:
            until: No step begins at that time or later (seconds).

        Returns:
            None if the next step has something to decide.
        """
        state = self._state
        columns = state.steady.columns
        num_requests = len(columns.ids)
        if not self._is_possible or not num_requests or num_requests < len(state.running):
            return None
        if state.notices or state.marks.reached or state.in_flight.steps:
            return None
        if state.waiting.num_in_queue and self._may_admit(num_requests):
            return None
        if num_requests > state.settings.max_num_scheduled_tokens:
            return None
        alarm = state.alarms.next_time
        if alarm is not None:
            until = min(until, alarm)
        if until <= state.clock.now():
            return None
        num_steps = self._num_steps(num_requests)
        if not num_steps:
            return None
        epoch = state.steady.epoch.value
        return Leap(
            columns.version,
            columns.ids,
            columns.token_ids,
            sum(columns.bases) + num_requests * epoch,
            num_steps,
            until,
        )

    def _may_admit(self, num_running: int) -> bool:
        """Tell whether a scan of waiting requests, if there are any, could do anything."""
        state = self._state
        if self._asks_who_waits:
            return True
        is_full = (
            num_running >= state.sizes.max_num_seqs
            or num_running >= state.settings.max_num_scheduled_tokens
        )
        return not (is_full or state.admission_paused)

    def _num_steps(self, num_requests: int) -> int:
        """Steps up to the first appointment, and as far as the blocks last."""
        state = self._state
        calendar = state.steady.calendar
        most = min(_MOST_STEPS, calendar.steps_to_appointment(state.running))
        free = state.kv.num_free_blocks
        if num_requests * (most // calendar.period + 1) <= free:
            return most
        for step in range(most):
            free -= len(calendar.at_position(-step))
            if free < 0:
                return step
        return most

    def commit(self, leap: Leap, output: LeapOutput) -> dict[str, Finish]:
        """Take over what was computed.

        Returns:
            By request, how it has ended.
        """
        state, num_steps = self._state, output.num_steps
        steady = state.steady
        deque(map(array.extend, steady.columns.token_ids, output.token_ids), maxlen=0)
        self._carry(num_steps)
        self._count(num_steps, len(leap.req_ids))
        steady.epoch.value += num_steps - 1
        for request in steady.advance():
            state.marks.reach(request)
        state.step.now = output.last_begin
        if output.ends or steady.ending:
            self._end(output)
        ended = state.ended
        if ended:
            state.ended = {}
        return ended

    def _carry(self, num_steps: int) -> None:
        """Give blocks to those that need one, step by step in order of admission."""
        state = self._state
        calendar = state.steady.calendar
        if state.keeps_accounts:
            self._account(num_steps)
        state.step_epoch.value += num_steps
        growing = calendar.at_position_over(0, num_steps)
        filling = calendar.at_position_over(-1, num_steps) if self._caches else []
        if growing or filling:
            state.kv.leap([*map(_view, growing)], [*map(_view, filling)])
            state.note_used_blocks()

    def _account(self, num_steps: int) -> None:
        """Book each block in the step that takes it."""
        state = self._state
        now = state.step_epoch.value
        for step in range(num_steps):
            state.step_epoch.value = now + step
            for request in state.steady.calendar.at_position(-step):
                if request.account is not None:
                    request.account.holds(1)
        state.step_epoch.value = now

    def _count(self, num_steps: int, num_requests: int) -> None:
        state = self._state
        counts, num_tokens = state.counts, num_steps * num_requests
        state.step_id += num_steps
        counts.steps += num_steps
        counts.scheduled_tokens += num_tokens
        counts.carried_grants += num_tokens
        counts.decode_grants += num_tokens

    def _end(self, output: LeapOutput) -> None:
        """End those whose last token it was, in order of admission."""
        steady = self._state.steady
        columns = steady.columns
        places = output.ends
        if steady.ending:
            ends = {columns.place(request) for request in steady.ending if request in steady}
            places = sorted(ends.union(places))
        done = [(columns.requests[at], output.token_ids[at][-1]) for at in places]
        for request, token in done:
            if request.finish is None:  # or the end of another one has ended it, too
                self._results.end_if_done(request, token)
