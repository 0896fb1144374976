"""Invariants that hold for any configuration, any arrivals and any failures.

==  ==============================================================================
E1  An idle scheduler has all usable blocks free, and remembers no request.
E2  Each request ends exactly once, with a reason.
E3  Scheduled tokens stay within the step's budget; a scheduled request is running.
E4  Outputs equal those of an unlimited pool with caching off.
E5  Reference counts equal block-table entries; the free queue is without duplicates.
E6  Something is scheduled within a few steps as long as something could be.
E7  No fault of one request, plugin or signal raises out of a step.
I1  The scheduled tokens of a plan add up to no more than the step's budget.
I2  No budget becomes negative, no count of tokens does.
I3  No more requests run than ``max_num_seqs``.
I4  Every computed position has a slot in a block of its request.
I5  A block that a plan in flight uses is handed to no other request.
I6  No request holds, or finds, a block whose tokens are neither computed nor being
    computed by a step that stands.
==  ==============================================================================

I1 to I6 are those that a scheduler's debugger checks at each step; E1 to E7 are what
a user of the scheduler may rely on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.exceptions import InvariantError

if TYPE_CHECKING:
    from batchwright.context import Sizes
    from batchwright.messages import SchedulerOutput
    from batchwright.step_view import StepView


@frozen
class Violation:
    """Something that must not be.

    Args:
        invariant: Its id.
        message: The violation, with its request or block.
    """

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"


def raise_violations(violations: Iterable[Violation]) -> None:
    """Raise for the first violation, naming all; return if there are none.

    Raises:
        InvariantError: There is one.
    """
    found = list(violations)
    if found:
        others = "".join(f"; {violation}" for violation in found[1:])
        raise InvariantError(found[0].invariant, found[0].message + others)


def plan_violations(
    plan: SchedulerOutput, view: StepView, limits: Sizes, budget: int
) -> Iterator[Violation]:
    """Check a plan right after it was made: E3, E5, I1 to I4.

    Args:
        plan: The plan.
        view: The scheduler that made it.
        limits: Its fixed sizes.
        budget: Token budget of this step.
    """
    yield from _grant_violations(plan, view, budget)
    if view.num_running > limits.max_num_seqs:
        yield Violation(
            "I3", f"{view.num_running} requests run, max_num_seqs = {limits.max_num_seqs}"
        )
    yield from _column_violations(plan)
    yield from _position_violations(plan, view, limits)
    for message in view.audit():
        yield Violation("E5", message)


def _grant_violations(plan: SchedulerOutput, view: StepView, budget: int) -> Iterator[Violation]:
    total = sum(plan.num_scheduled_tokens.values())
    if total > budget:
        yield Violation("I1", f"{total} tokens are scheduled, the budget is {budget}")
    if total != plan.total_num_scheduled_tokens:
        yield Violation(
            "E3",
            f"scheduled tokens add up to {total}, the plan says {plan.total_num_scheduled_tokens}",
        )
    if view.num_tokens_left < 0:
        yield Violation("I2", f"{view.num_tokens_left} tokens of the budget are left")
    running = view.running
    for request_id, num_tokens in plan.num_scheduled_tokens.items():
        request = view.request(request_id)
        if request is None or request not in running:
            yield Violation("E3", f"request {request_id!r} is scheduled and does not run")
        if num_tokens < 1:
            yield Violation("E3", f"request {request_id!r} has {num_tokens} scheduled tokens")
        num_drafts = len(plan.scheduled_draft_token_ids.get(request_id, ()))
        if num_drafts >= max(1, num_tokens):
            yield Violation(
                "E3",
                f"request {request_id!r} verifies {num_drafts} drafts with "
                f"{num_tokens} scheduled tokens",
            )


def _column_violations(plan: SchedulerOutput) -> Iterator[Violation]:
    """Yield a text unless the parts of a plan name the same requests, each once."""
    new = [data.req_id for data in plan.scheduled_new_reqs]
    cached = plan.scheduled_cached_reqs
    if sorted(new + cached.req_ids) != sorted(plan.num_scheduled_tokens):
        yield Violation(
            "E3",
            f"requests {new} (new) and {cached.req_ids} (known) are planned, "
            f"{list(plan.num_scheduled_tokens)} have scheduled tokens",
        )
    gone = {*plan.preempted_req_ids} & {*plan.num_scheduled_tokens}
    if gone:
        yield Violation("E3", f"requests {sorted(gone)} are preempted and scheduled at once")
    lengths = {
        len(column)
        for column in (
            cached.req_ids,
            cached.new_block_ids,
            cached.num_computed_tokens,
            cached.num_output_tokens,
        )
    }
    if len(lengths) > 1 or not {*cached.resumed_req_ids} <= {*cached.req_ids}:
        yield Violation("E3", "the columns of known requests do not belong together")


def _position_violations(
    plan: SchedulerOutput, view: StepView, limits: Sizes
) -> Iterator[Violation]:
    """Yield a text for each count of computed tokens that is impossible, or without blocks."""
    for request in view.running:
        who, computed = f"request {request.request_id!r}", request.num_computed_tokens
        if computed < 0:
            yield Violation("I2", f"{who} has computed {computed} tokens")
        drafts = plan.scheduled_draft_token_ids.get(request.request_id, ())
        if request.num_new_tokens + len(drafts) < 0:
            yield Violation(
                "I2", f"{who} has computed {-request.num_new_tokens - len(drafts)} tokens too many"
            )
        num_slots = len(view.block_ids(request)) * limits.block_size
        if computed > num_slots:
            yield Violation("I4", f"{who} has computed {computed} tokens in {num_slots} slots")
    for request_id in plan.preempted_req_ids:
        waiting = view.request(request_id)
        if waiting is not None and waiting not in view.running and view.block_ids(waiting):
            yield Violation("E5", f"request {request_id!r} was preempted and holds blocks")
