"""Checks with a memory: steps in flight, ended requests, steps without progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import define, field

from batchwright.testing.contents import BlockContents
from batchwright.testing.violations import Violation, plan_violations

if TYPE_CHECKING:
    from batchwright.context import Sizes
    from batchwright.messages import SchedulerOutput, StepOutputs
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView


@define(eq=False)
class Watch:
    """Check every plan and every update of one scheduler.

    It derives block tables from the plans alone, as an executor does, so that it does
    not believe the books that it checks.

    Args:
        limits: The scheduler's fixed sizes.
        patience: Steps in a row in which nothing may be scheduled though it could be.
        checks_contents: True if I6 is checked; ``compat`` with an engine that breaks it
            cannot keep it.
    """

    limits: Sizes
    patience: int = 8
    checks_contents: bool = True
    _tables: dict[str, list[int]] = field(init=False, factory=dict)
    _in_flight: dict[int, dict[str, frozenset[int]]] = field(init=False, factory=dict)
    _live: dict[str, RequestView] = field(init=False, factory=dict)
    _untold: dict[str, RequestView] = field(init=False, factory=dict)
    _num_idle: int = field(init=False, default=0)
    _contents: BlockContents = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._contents = BlockContents(self.limits.block_size)

    def added(self, request: RequestView) -> None:
        """Note a request that was accepted."""
        self._live[request.request_id] = request

    def ended(self, request: RequestView) -> Iterator[Violation]:
        """Note a request that ended, and check that it had not: E2."""
        known = self._live.pop(request.request_id, None)
        if known is not request:
            yield Violation("E2", f"request {request.request_id!r} ended and was not live")
        if request.finish is None or not request.finish.detail:
            yield Violation("E2", f"request {request.request_id!r} ended without a reason")
        self._untold[request.request_id] = request

    def planned(self, plan: SchedulerOutput, view: StepView, budget: int) -> Iterator[Violation]:
        """Check a plan right after it was made: E2, E3, E5, E6, I1 to I6."""
        yield from plan_violations(plan, view, self.limits, budget)
        yield from self._hand_out(plan, view)
        if self.checks_contents:
            yield from self._unfounded(plan)
            yield from self._findable_gaps(view)
        yield from self._idle(plan, view)

    def updated(self, outputs: StepOutputs, view: StepView) -> Iterator[Violation]:
        """Check the results of a step right after they were committed: E2, E5, I6."""
        self._in_flight.pop(outputs.step_id, None)
        self._contents.updated(outputs.step_id, view.failed_ids)
        if self.checks_contents:
            yield from self._held_gaps(view) if view.failed_ids else ()
            yield from self._findable_gaps(view)
        for request_id, finish in outputs.finished.items():
            request = self._untold.pop(request_id, None)
            if request is None or request.finish is not finish:
                yield Violation("E2", f"request {request_id!r} is reported to have ended again")
        # A request that an observer ends during these results is reported with the next.
        later = {i: self._untold[i] for i in self._untold if i in view.unreported_ends}
        for request_id in self._untold:
            if request_id not in later:
                yield Violation("E2", f"the end of request {request_id!r} is not reported")
        self._untold = later
        for message in view.audit():
            yield Violation("E5", message)

    def _hand_out(self, plan: SchedulerOutput, view: StepView) -> Iterator[Violation]:
        """Follow the block tables; blocks handed out anew must belong to no other request: I5."""
        voided = len(self._in_flight) - (view.num_in_flight - 1)
        for step_id in list(self._in_flight)[: max(0, voided)]:
            del self._in_flight[step_id]
            self._contents.clear()  # the executor was restarted
        for request_id in plan.finished_req_ids:
            self._tables.pop(request_id, None)
        size, used = self.limits.block_size, {}
        for request_id, fresh in self._fresh_blocks(plan, size):
            for block_id in fresh:
                self._contents.empty(block_id)
                for user in self._users(block_id):
                    yield Violation(
                        "I5",
                        f"block {block_id} is handed to request {request_id!r} while a "
                        f"plan in flight computes {user!r} in it",
                    )
        for request_id in plan.num_scheduled_tokens:
            table = self._tables.get(request_id, [])
            used[request_id] = frozenset(table)
            request = view.request(request_id)
            if request is not None and view.block_ids(request) != table:
                yield Violation(
                    "E5",
                    f"request {request_id!r} holds blocks {view.block_ids(request)}, "
                    f"the executor was told {table}",
                )
        self._in_flight[plan.step_id] = used
        self._contents.planned(plan, self._tables)

    def _unfounded(self, plan: SchedulerOutput) -> Iterator[Violation]:
        """Requests that go on from blocks that no step computes: I6."""
        for request_id, start in plan.starts():
            gap = self._contents.first_gap(self._tables.get(request_id, []), start)
            if gap is not None:
                yield Violation(
                    "I6",
                    f"request {request_id!r} goes on from position {start}, and no step that "
                    f"stands computes its position {gap}",
                )

    def _held_gaps(self, view: StepView) -> Iterator[Violation]:
        """Running requests that count on what a failed step was to compute: I6."""
        for request in view.running:
            num_computed = request.num_computed_tokens
            gap = self._contents.first_gap(view.block_ids(request), num_computed)
            if gap is not None:
                yield Violation(
                    "I6",
                    f"request {request.request_id!r} counts {num_computed} computed tokens; the "
                    f"step that was to compute its position {gap} has failed",
                )

    def _findable_gaps(self, view: StepView) -> Iterator[Violation]:
        """Blocks that the prefix cache finds though no step fills them: I6."""
        for block_id in view.published_blocks():
            written = self._contents.num_written(block_id)
            if written < self.limits.block_size:
                yield Violation(
                    "I6",
                    f"block {block_id} can be found in the prefix cache, and only {written} of "
                    f"its {self.limits.block_size} tokens are computed by a step that stands",
                )

    def _fresh_blocks(self, plan: SchedulerOutput, size: int) -> Iterator[tuple[str, list[int]]]:
        """Blocks whose old content is given up, by request."""
        for new in plan.scheduled_new_reqs:
            self._tables[new.req_id] = list(new.block_ids)
            yield new.req_id, new.block_ids[-(-new.num_computed_tokens // size) :]
        cached = plan.scheduled_cached_reqs
        resumed = frozenset(cached.resumed_req_ids)
        columns = zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True)
        for request_id, blocks, computed in columns:
            blocks = blocks or []
            if request_id in resumed:
                self._tables[request_id] = list(blocks)
                blocks = blocks[-(-computed // size) :]
            else:
                self._tables.setdefault(request_id, []).extend(blocks)
            yield request_id, blocks

    def _users(self, block_id: int) -> list[str]:
        return [
            request_id
            for used in self._in_flight.values()
            for request_id, block_ids in used.items()
            if block_id in block_ids
        ]

    def _idle(self, plan: SchedulerOutput, view: StepView) -> Iterator[Violation]:
        """Count steps in which nothing was scheduled though something could be: E6."""
        # A gate may hold the others for the key of a waiting one: no gate is overruled then.
        waits = view.num_running or (view.num_waiting and not view.num_parked)
        excused = view.is_paused or view.next_timer is not None or view.num_in_flight > 1
        self._num_idle = self._num_idle + 1 if plan.is_empty and waits and not excused else 0
        if self._num_idle > self.patience:
            yield Violation(
                "E6",
                f"nothing was scheduled for {self._num_idle} steps; {view.num_running} run "
                f"and {view.num_waiting - view.num_parked} wait",
            )
