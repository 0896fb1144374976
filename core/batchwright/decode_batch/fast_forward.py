"""Many steps of the decode batch at once: an interface for simulators.

While all running requests are in the batch and none is admitted, each step schedules a token
for each of them, until something happens: an arrival, an end, a timer, a shortage of blocks.
What such steps do is known beforehand, so it is done for all of them together; the state
that they leave is the one that stepping leaves, block ids included. No plans are made.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from batchwright.messages import FastForward, FastForwardOutput
from batchwright.protocols.component import overrides

if TYPE_CHECKING:
    from batchwright.request import Finish
    from batchwright.scheduler.results import Results
    from batchwright.scheduler.state import State

_MOST_STEPS: Final = 1 << 16
_view = attrgetter("view")


class FastForwarding:
    """Advances the decode batch by several steps.

    It knows the batch. Its caller knows if components have to be asked in each of these
    steps, and how far their answers allow to go.

    Args:
        state: The scheduler's.
        results: Ends what has reached its end.
        alone: What the scheduler does around a call from outside, by the call's name.

    Attributes:
        is_possible: Whether there may be such steps at all.
    """

    def __init__(
        self, state: State, results: Results, alone: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._state = state
        self._results = results
        self._alone = alone
        self._caches = state.sizes.enable_prefix_caching
        self.is_possible = (
            state.decode_batch.is_enabled
            and not state.sizes.num_lookahead_tokens
            and overrides(state.kv, "fast_forward_decodes")
        )

    @property
    def has_candidates(self) -> bool:
        """True if requests wait that the next step could look at."""
        return self._state.waiting.num_in_queue > 0

    @property
    def is_full(self) -> bool:
        """True if the next step has no seat or no token for another request, or is paused."""
        state = self._state
        most = min(state.sizes.max_num_seqs, state.settings.max_num_scheduled_tokens)
        return state.admission_paused or len(state.running) >= most

    def plan(self, until: float) -> FastForward | None:
        """The steps from now on that do nothing but advance the batch.

        Args:
            until: No step begins at that time or later (seconds).

        Returns:
            None if the next step may do something else. That it may admit a request is for
            the caller to know.
        """
        state = self._state
        columns = state.decode_batch._columns
        num_requests = len(columns.ids)
        if not num_requests or num_requests < len(state.running):
            return None
        if state.signals or state.token_timers.reached or state.in_flight.steps:
            return None
        if num_requests > state.settings.max_num_scheduled_tokens:
            return None
        alarm = state.clock_timers.next_time
        if alarm is not None:
            until = min(until, alarm)
        if until <= state.clock.now():
            return None
        num_steps = self._num_steps(num_requests)
        if not num_steps:
            return None
        context = sum(columns.bases) + num_requests * state.decode_batch.count.value
        return FastForward(
            columns.version, columns.ids, columns.token_ids, context, num_steps, until
        )

    def commit(self, output: FastForwardOutput) -> dict[str, Finish]:
        """Commit what was computed for the plan made just before.

        Returns:
            By request, how it has ended, since the last update.

        Raises:
            StepError: A component called it.
            PluginError: A component failed too often in a row.
        """
        with self._alone("fast_forward()"):
            self._commit(output)
        state = self._state
        ended, state.ended = state.ended, {}
        return ended

    def _commit(self, output: FastForwardOutput) -> None:
        state, num_steps = self._state, output.num_steps
        batch = state.decode_batch
        deque(map(array.extend, batch._columns.token_ids, output.token_ids), maxlen=0)
        self._allocate(num_steps)
        self._count(num_steps, len(batch))
        batch.count.value += num_steps - 1
        for request in batch._advance():
            state.token_timers.note(request)
        state.step.now = output.last_begin
        if output.ends or batch._at_last_token:
            self._end(output)

    def _num_steps(self, num_requests: int) -> int:
        """Steps until a request of the batch is looked at, and as far as the blocks last."""
        state = self._state
        batch, running = state.decode_batch, state.running

        def is_in_batch(request_id: str) -> bool:
            request = running.get(request_id)
            return request is not None and request in batch

        most = min(_MOST_STEPS, batch._due.distance(batch.count.value, is_in_batch))
        free, phases = state.kv.num_free_blocks, batch._phases
        if num_requests * (most // phases.block_size + 1) <= free:
            return most
        for step in range(most):
            free -= len(phases.at(-step))
            if free < 0:
                return step
        return most

    def _allocate(self, num_steps: int) -> None:
        """Give blocks to those that need one, step by step in order of admission."""
        state = self._state
        phases = state.decode_batch._phases
        if state.policy.keeps_accounts:
            self._count_blocks(num_steps)
        state.step_count.value += num_steps
        growing = phases.at_over(0, num_steps)
        filling = phases.at_over(-1, num_steps) if self._caches else []
        if growing or filling:
            state.kv.fast_forward_decodes([*map(_view, growing)], [*map(_view, filling)])
            state.note_used_blocks()

    def _count_blocks(self, num_steps: int) -> None:
        """Count each block as held from the step on that takes it."""
        state = self._state
        now = state.step_count.value
        for step in range(num_steps):
            state.step_count.value = now + step
            for request in state.decode_batch._phases.at(-step):
                if request.usage is not None:
                    request.usage.change_num_blocks(1)
        state.step_count.value = now

    def _count(self, num_steps: int, num_requests: int) -> None:
        state = self._state
        counts, num_tokens = state.counts, num_steps * num_requests
        state.step_id += num_steps
        counts.steps += num_steps
        counts.scheduled_tokens += num_tokens
        counts.batched_decodes += num_tokens
        counts.decode_tokens += num_tokens

    def _end(self, output: FastForwardOutput) -> None:
        """End those whose last token it was, in order of admission."""
        batch = self._state.decode_batch
        columns = batch._columns
        places = output.ends
        if batch._at_last_token:
            ends = {columns.place(request) for request in batch._at_last_token if request in batch}
            places = sorted(ends.union(places))
        done = [(columns.requests[at], output.token_ids[at][-1]) for at in places]
        for request, token in done:
            if request.finish is None:  # or the end of another one has ended it, too
                self._results.end_if_done(request, token)
