"""Fast-forward: many simulated steps at once, where a step decides nothing.

While all running requests are in the decode batch and none is admitted, each step schedules a
token for each of them, until something happens: an arrival, an end, a timer, a shortage of
blocks. The work of such steps is known beforehand, so it is done for all of them together; the
state that they leave is the one that stepping leaves, block ids included. No plans are made.

A component that watches plans, or is asked at every step, switches it off by being there.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, sub
from typing import TYPE_CHECKING, Final

from batchwright import Scheduler
from batchwright.protocols.component import overrides

if TYPE_CHECKING:
    from batchwright.protocols import Executor, SchedulerBase
    from batchwright.request import Finish

__all__ = ["FastForwarder"]

_MOST_STEPS: Final = 1 << 16
_most_tokens = attrgetter("max_total_tokens")
_token_ids = attrgetter("token_ids")
_view = attrgetter("view")


class FastForwarder:
    """Take a scheduler and its executor over steps in which nothing is decided.

    Args:
        scheduler: The scheduler; only the default one can be taken over steps.
        executor: Its executor.
    """

    def __init__(self, scheduler: SchedulerBase, executor: Executor) -> None:
        self._executor = executor
        self._is_possible = isinstance(scheduler, Scheduler) and _decides_nothing(
            scheduler, executor
        )
        if isinstance(scheduler, Scheduler):
            self._state, self._results, self._turns = scheduler.insides
        policy, gates = scheduler.components.policy, scheduler.components.gates
        self._asks_who_waits = (
            overrides(policy, "running_to_preempt")
            or overrides(policy, "preempts")
            or any(overrides(gate, "open") for gate in gates)
        )

    def run(self, until: float) -> dict[str, Finish] | None:
        """Compute many steps, as far as nothing is decided in them.

        Args:
            until: No step begins at that time or later (seconds).

        Returns:
            By request, how it has ended; None if the next step is one to plan.
        """
        if not self._is_possible or self._may_admit() or not self._only_decodes():
            return None
        state = self._state
        alarm = state.clock_timers.next_time
        if alarm is not None:
            until = min(until, alarm)
        if until <= state.clock.now():
            return None
        requests = state.running.values()
        num_tokens = dict(zip(state.running, map(len, map(_token_ids, requests)), strict=True))
        max_steps = self._max_steps(num_tokens)
        if not max_steps:
            return None
        tokens, ends, last_begin = self._executor.fast_forward(num_tokens, max_steps, until)
        if len(tokens[0]) == max_steps:
            ends = [*range(len(tokens))]  # it may be the last token of any of them
        return self.commit(tokens, ends, last_begin)

    def commit(
        self, tokens: Sequence[array[int]], ends: Sequence[int], last_begin: float
    ) -> dict[str, Finish]:
        """Commit steps that were computed at once.

        Args:
            tokens: New tokens of each running request.
            ends: Places of those that may have ended with the last one, in order.
            last_begin: When the last step began (seconds).

        Returns:
            By request, how it has ended, since the last update.

        Raises:
            StepError: A component called it.
            PluginError: A component failed too often in a row.
        """
        state = self._state
        with self._turns.begin("fast_forward()"):
            num_steps = len(tokens[0])
            known = map(_token_ids, state.running.values())
            deque(map(array.extend, known, tokens), maxlen=0)  # a loop in C
            self._count(num_steps)
            self._allocate(num_steps)
            for request in state.decode_batch.advance_by(num_steps):
                state.token_timers.note(request)
            state.step.now = last_begin
            requests = list(state.running.values())
            for at in ends:
                request = requests[at]
                if request.finish is None:  # or the end of another one has ended it, too
                    self._results.end_if_done(request, tokens[at][-1])
        ended, state.ended = state.ended, {}
        return ended

    def _may_admit(self) -> bool:
        """Tell whether the next step may look at a waiting request."""
        state = self._state
        if not state.waiting.num_in_queue:
            return False
        most = min(state.sizes.max_num_seqs, state.settings.max_num_scheduled_tokens)
        is_full = state.admission_paused or len(state.running) >= most
        return self._asks_who_waits or not is_full

    def _only_decodes(self) -> bool:
        """Tell whether the next step only advances the batch, which is all that runs."""
        state = self._state
        num_running = len(state.running)
        return (
            0 < num_running == len(state.decode_batch)
            and num_running <= state.settings.max_num_scheduled_tokens
            and not (state.signals or state.token_timers.reached or state.in_flight.steps)
        )

    def _max_steps(self, num_tokens: dict[str, int]) -> int:
        """Steps until a request comes to an end or a timer, as far as the blocks last."""
        state = self._state
        requests = state.running.values()
        lefts = map(sub, map(_most_tokens, requests), num_tokens.values())
        timed = [r.timers[0][0] - r.num_computed_tokens for r in requests if r.timers]
        most: int = min(_MOST_STEPS, *lefts, *timed)
        free = state.kv.num_free_blocks
        if len(requests) * (most // state.sizes.block_size + 1) <= free:
            return most
        batch = state.decode_batch
        for step in range(most):
            free -= len(batch.phases[(batch.count.value + step) % len(batch.phases)])
            if free < 0:
                return step
        return most

    def _count(self, num_steps: int) -> None:
        state, counts = self._state, self._state.counts
        num_tokens = num_steps * len(state.running)
        state.step_id += num_steps
        counts.steps += num_steps
        counts.scheduled_tokens += num_tokens
        counts.batched_decodes += num_tokens
        counts.decode_tokens += num_tokens

    def _allocate(self, num_steps: int) -> None:
        """Give blocks to those that need one, step by step in order of admission."""
        state = self._state
        phases, first = state.decode_batch.phases, state.decode_batch.count.value
        steps = [phases[(first + step) % len(phases)] for step in range(num_steps + 1)]
        for requests in steps[:-1]:
            for request in requests:
                if request.usage is not None:
                    request.usage.change_num_blocks(1)
            state.step_count.value += 1
        growing, filling = [*chain(*steps[:-1])], [*chain(*steps[1:])]
        if growing or filling:
            state.kv.fast_forward_decodes([*map(_view, growing)], [*map(_view, filling)])
            state.note_used_blocks()


def _decides_nothing(scheduler: SchedulerBase, executor: Executor) -> bool:
    """Tell whether there may be steps in which no component is asked."""
    components, sizes = scheduler.components, scheduler.sizes
    return (
        not sizes.num_lookahead_tokens
        and overrides(components.kv, "fast_forward_decodes")
        and overrides(executor, "fast_forward")
        and not executor.has_worker_sides
        and not components.features
        and not any(overrides(control, "caps") for control in components.controls)
        and not any(
            overrides(component, event)
            for component in components
            for event in ("on_step", "on_outputs")
        )
    )
