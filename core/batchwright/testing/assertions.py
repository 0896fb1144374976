"""Assertions about a scheduler, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from batchwright.scheduler import StepScheduler
from batchwright.testing.model import ScriptedModel, reference_output
from batchwright.testing.violations import Violation, plan_violations, raise_violations

if TYPE_CHECKING:
    from batchwright.messages import SchedulerOutput
    from batchwright.protocols import SchedulerBase
    from batchwright.request import Request
    from batchwright.scheduler.state import State


def check_step(scheduler: SchedulerBase, plan: SchedulerOutput) -> None:
    """Check a plan right after ``schedule()`` returned it: E3, E5, I1 to I4.

    Raises:
        InvariantError: One of them does not hold.
    """
    budget = scheduler.settings.max_num_scheduled_tokens
    raise_violations(plan_violations(plan, scheduler.view, scheduler.sizes, budget))


def check_idle(scheduler: SchedulerBase) -> None:
    """Check that a scheduler without requests holds and remembers nothing: E1, E2, E5.

    Raises:
        InvariantError: Something is left.
    """
    raise_violations(_left_over(scheduler))


def check_outputs(
    requests: Sequence[Request],
    outputs: Mapping[str, Sequence[int]],
    model: ScriptedModel,
    *,
    max_model_len: int | None = None,
) -> None:
    """Check what requests answered against an unlimited pool without a cache: E4.

    A request that was aborted, failed, or outgrew the pool must have answered a
    beginning of its reference, every other one the whole.

    Args:
        requests: Ended requests.
        outputs: Their output tokens by id, as they were delivered.
        model: The model of the executor.
        max_model_len: Longest sequence, prompt and outputs (tokens).

    Raises:
        InvariantError: An answer differs.
    """
    raise_violations(
        violation
        for request in requests
        for violation in _wrong_output(
            request,
            list(outputs.get(request.request_id, ())),
            reference_output(request, model, max_model_len=max_model_len),
        )
    )


def _wrong_output(request: Request, output: list[int], expected: list[int]) -> Iterator[Violation]:
    who, finish = f"request {request.request_id!r}", request.finish
    if finish is None:
        yield Violation("E2", f"{who} has not ended")
        return
    if output != list(request.output_token_ids):
        yield Violation(
            "E2", f"{who}: {output} was delivered, {list(request.output_token_ids)} is known"
        )
    whole = finish.reason in ("stop", "length") and finish.detail != "kv_capacity"
    if output != (expected if whole else expected[: len(output)]):
        yield Violation(
            "E4", f"{who} ({finish.reason}, {finish.detail}) answered {output}, not {expected}"
        )


def _left_over(scheduler: SchedulerBase) -> Iterator[Violation]:
    kv = scheduler.kv_manager
    if kv.num_free_blocks != kv.num_usable_blocks:
        yield Violation(
            "E1", f"{kv.num_free_blocks} of {kv.num_usable_blocks} usable blocks are free"
        )
    for message in scheduler.view.audit():
        yield Violation("E5", message)
    counts = _counts(scheduler)
    if isinstance(scheduler, StepScheduler):
        counts |= _inner_counts(scheduler._state)
    for name, count in counts.items():
        if count:
            yield Violation("E1", f"{count} {name} are left")
    if isinstance(scheduler, StepScheduler):
        yield from _charged(scheduler._state)


def _charged(state: State) -> Iterator[Violation]:
    for key in state.usage:
        if num_blocks := state.usage[key].num_blocks:
            yield Violation("E1", f"account {key!r} is charged for {num_blocks} blocks")


def _counts(scheduler: SchedulerBase) -> dict[str, int]:
    view = scheduler.view
    return {
        "live requests": len(scheduler.requests),
        "running requests": view.num_running,
        "waiting requests": view.num_waiting,
        "parked requests": view.num_parked,
        "plans in flight": view.num_in_flight,
        "untold ends": len(view.unreported_ends),
    }


def _inner_counts(state: State) -> dict[str, int]:
    waiting = state.waiting
    return {
        "queued requests": waiting.num_in_queue,
        "unanswered requests": waiting.num_unanswered,
        "keys that no request waits for": len(waiting._by_key),
        "waiting prompt tokens": waiting.num_prompt_tokens,
        "running requests outside the decode batch": len(state.decode_batch.others()),
        "requests in the decode batch": len(state.decode_batch),
        "held blocks": len(state.in_flight.deferred_blocks()),
    }
