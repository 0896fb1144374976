"""The plan of a finished step, as the executor gets it."""

from __future__ import annotations

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.request import Request
from batchwright.scheduler.in_flight import InFlightStep
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.step_record import StepRecord


def commit_plan(state: State) -> SchedulerOutput:
    """Commit a step: counts advance, the plan is in flight."""
    step = state.step
    visited = [state.requests[request_id] for request_id in step.num_new_tokens]
    batch = state.decode_batch.advance(step.tables) if step.num_batched else None
    cached = _cached_requests(step, batch.data if batch else CachedRequestData(), visited)
    plan = SchedulerOutput(
        state.step_id,
        _new_requests(step) if step.admitted else [],
        cached,
        step.tokens,
        step.num_scheduled_tokens,
        step.draft_tokens,
        step.preempted_ids,
        state.finished_ids,
    )
    state.finished_ids = []
    _count(state, plan.total_num_scheduled_tokens)
    sampling = _advance(state, visited)
    requests = visited
    if batch is not None:
        requests = batch.requests + visited if visited else batch.requests
        for request in batch.watched:
            state.token_timers.note(request)
    state.in_flight.steps.append(
        InFlightStep(plan, requests, batch.requests if batch else None, sampling)
    )
    state.step_id += 1
    state.step_count.value += 1
    return plan


def _new_requests(step: StepInProgress) -> list[NewRequestData]:
    """Tell of admitted requests that the executor does not know; it knows them from now on."""
    told = []
    for request in step.admitted.values():
        if not request.on_executor:
            request.on_executor = True
            data = NewRequestData(
                request.request_id,
                request.prompt_token_ids,
                request.sampling_params,
                step.tables[request.request_id],
                request.num_computed_tokens,
                request.output_token_ids,
                request.adapter,
            )
            told.append(data)
    return told


def _cached_requests(
    step: StepInProgress, data: CachedRequestData, visited: list[Request]
) -> CachedRequestData:
    """Append visited requests that the executor knows to the columns of the batch."""
    for request in visited:
        if request.on_executor:
            request_id = request.request_id
            data.req_ids.append(request_id)
            data.new_block_ids.append(step.tables.get(request_id))
            data.num_computed_tokens.append(request.num_computed_tokens)
            data.num_output_tokens.append(request.num_output_tokens)
            if request_id in step.admitted:
                data.resumed_req_ids.append(request_id)
    return data


def _advance(state: State, visited: list[Request]) -> frozenset[str] | None:
    """Count the tokens of visited requests as computed.

    Returns:
        In a pipeline, the requests for which this step samples a token.
    """
    step = state.step
    pipelined = state.settings.pipeline_depth > 1
    sampling = []
    for request in visited:
        num_tokens = step.tokens[request.request_id]
        _count_usage(request, num_tokens, step.num_new_tokens[request.request_id])
        request.num_computed_tokens += num_tokens
        if pipelined and request.num_new_tokens <= 0:
            request.num_output_placeholders += 1
            sampling.append(request.request_id)
        if request.timers:
            state.token_timers.note(request)
    return frozenset(sampling) if pipelined else None


def _count(state: State, num_tokens: int) -> None:
    step, counts = state.step, state.counts
    counts.steps += 1
    counts.empty_steps += not num_tokens
    counts.scheduled_tokens += num_tokens
    counts.batched_decodes += step.num_batched
    counts.decode_tokens += step.num_batched
    if step.num_new_tokens:
        counts.decode_tokens += list(step.num_new_tokens.values()).count(1)
    if step.tables:
        state.note_used_blocks()


def _count_usage(request: Request, num_tokens: int, num_new_tokens: int) -> None:
    again = request.high_water - request.num_computed_tokens
    again = min(num_tokens, again) if again > 0 else 0
    request.num_recomputed_tokens += again
    if request.usage is not None:
        request.usage.recomputed_tokens += again
        if num_new_tokens > 1:
            request.usage.prefill_tokens += num_tokens
        else:
            request.usage.add_decode_tokens(num_tokens)


def record_of(plan: SchedulerOutput, step: StepInProgress, state: State) -> StepRecord:
    """Return a plan and its circumstances, for observers."""
    return StepRecord(
        plan=plan,
        view=state.view,
        budget=step.budget,
        visited=step.num_new_tokens,
        num_batched=step.num_batched,
        new_blocks=step.tables,
        waiting_reasons=state.waiting.new_reasons,
        shortage=step.shortage,
        stopped_by=step.stopped_by,
        preempted_for=step.preempted_for,
        admitted=step.admitted,
    )
