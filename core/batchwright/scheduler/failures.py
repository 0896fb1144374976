"""Requests that an executor could not compute, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from attrs import define

from batchwright.request import RequestStatus
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.in_flight import BlockTable, InFlightStep
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


@define(eq=False, slots=False)
class Failures:
    """Ends requests that a step could not compute, and takes back what they published.

    A block is published when the step that fills it is planned, so that other requests may
    have adopted blocks that now hold nothing. Each of them, and each that has adopted a block
    of theirs, is rewound: it waits again and goes on from its last token that stands.

    Args:
        state: The requests, by place.
        ending: Ends requests.
        preemption: Has requests wait again.
    """

    _state: State
    _ending: Ending
    _preemption: Preemption

    def end(self, step: InFlightStep, errors: Mapping[str, str]) -> None:
        """End requests of a step that is done; its answers for others still count.

        A request that fails because it shares blocks of one that failed does not end.

        Args:
            step: The step, in flight no more.
            errors: By request id, why it could not be computed; other ids are ignored.
        """
        failed = [
            request
            for request in step.requests
            if request.request_id in errors and request.request_id not in step.dropped
        ]
        if not failed:
            return
        state, steps = self._state, [step, *self._state.in_flight.steps]
        state.in_flight.failed_ids += [request.request_id for request in failed]
        tables = self._tables(steps, [request.request_id for request in failed])
        starts = {name: start for f in reversed(steps) for name, start in f.plan.starts()}
        void: dict[int, None] = {}
        for request in failed:
            if self._add_void(void, request.request_id, tables, starts):
                detail = str(errors[request.request_id])
                if request.finish is None:
                    self._ending.finish(request, RequestStatus.FINISHED_ERROR, detail)
        state.kv.unpublish_blocks(list(void))
        spoilt = dict.fromkeys(name for name, table in tables if not void.keys().isdisjoint(table))
        self._rewind([name for name in spoilt if name in state.requests], steps)

    def _tables(self, steps: list[InFlightStep], failed: Iterable[str]) -> list[BlockTable]:
        """Tables that may hold a block of a failed request, detached ones included.

        Only a request that has been admitted since the failing step was planned can.
        """
        state = self._state
        names = dict.fromkeys(failed)
        for step in steps:
            plan = step.plan
            names.update((new.req_id, None) for new in plan.scheduled_new_reqs)
            names.update(dict.fromkeys(plan.scheduled_cached_reqs.resumed_req_ids))
        live = [state.requests[name] for name in names if name in state.requests]
        tables = [(r.request_id, state.blocks.table(r)) for r in live]
        return [*tables, *steps[0].returned, *state.in_flight.deferred_tables()]

    def _add_void(
        self, void: dict[int, None], name: str, tables: list[BlockTable], starts: Mapping[str, int]
    ) -> bool:
        """Add the blocks that a failed request, or one that shares them, was to compute.

        A block that such a request has adopted from a third one is not among them.

        Args:
            void: Such blocks of requests that failed before it; extended.
            name: The failed request.
            tables: All tables that may hold such a block.
            starts: By request, the first position that it computes since the failing step.

        Returns:
            Whether the fault is its own: not if it was computed from blocks that are void.
        """
        size = self._state.blocks.block_size
        own = [table for request_id, table in tables if request_id == name]
        if any(not void.keys().isdisjoint(table[: starts[name] // size]) for table in own):
            return False
        for table in own:
            void.update(dict.fromkeys(table[starts[name] // size :]))
        num_known = -1
        while num_known < len(void):
            num_known = len(void)
            for request_id, table in tables:
                first = starts.get(request_id, 0) // size
                if not void.keys().isdisjoint(table[:first]):
                    void.update(dict.fromkeys(table[first:]))
        return True

    def _rewind(self, names: list[str], steps: list[InFlightStep]) -> None:
        """Have live requests wait again, and drop what steps in flight answer for them."""
        state = self._state
        for step in steps:
            step.dropped |= frozenset(names)
        state.step = StepInProgress(now=state.step.now)  # they leave no plan that is being made
        live = [state.requests[name] for name in names]
        for request in sorted(live, key=attrgetter("running_order"), reverse=True):
            if request.request_id in state.running:
                self._preemption.preempt(request, "executor")
            elif request.request_id in state.paused:
                self._preemption.reclaim(request)
        state.step = state.idle_step
