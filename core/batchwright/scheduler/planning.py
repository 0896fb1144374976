"""Turns a finished draft into the plan that the executor gets."""

from __future__ import annotations

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.request import Request
from batchwright.scheduler.draft import Draft
from batchwright.scheduler.fence import Flight
from batchwright.scheduler.state import State


def commit_plan(state: State) -> SchedulerOutput:
    """Commit the draft: counts advance, the plan is in flight."""
    draft = state.draft
    visited = [state.requests[request_id] for request_id in draft.debts] if draft.debts else []
    new = [r for r in draft.admitted.values() if not r.on_executor] if draft.admitted else []
    batch = state.decode_batch.advance(draft.tables) if draft.num_batched else None
    plan = SchedulerOutput(
        state.step_id,
        [_new_request(state, request) for request in new] if new else [],
        _cached_requests(draft, batch.data if batch else CachedRequestData(), visited),
        draft.tokens,
        draft.num_scheduled_tokens,
        draft.draft_tokens,
        draft.preempted_ids,
        state.finished_ids,
    )
    for request in new:
        request.on_executor = True
    state.finished_ids = []
    _count(state, plan.total_num_scheduled_tokens)
    sampling = _advance(state, visited)
    if batch is None:
        requests = visited
    else:
        requests = batch.requests + visited if visited else batch.requests
        for request in batch.watched:
            state.token_timers.note(request)
    state.fence.flights.append(Flight(plan, requests, batch, sampling))
    state.step_id += 1
    state.step_count.value += 1
    return plan


def _new_request(state: State, request: Request) -> NewRequestData:
    return NewRequestData(
        request.request_id,
        request.prompt_token_ids,
        request.sampling_params,
        state.draft.tables[request.request_id],
        request.num_computed_tokens,
        request.output_token_ids,
        request.adapter,
    )


def _cached_requests(
    draft: Draft, data: CachedRequestData, visited: list[Request]
) -> CachedRequestData:
    """Append visited requests that the executor knows to the columns of the batch."""
    for request in visited:
        if request.on_executor:
            request_id = request.request_id
            data.req_ids.append(request_id)
            data.new_block_ids.append(draft.tables.get(request_id))
            data.num_computed_tokens.append(request.num_computed_tokens)
            data.num_output_tokens.append(request.num_output_tokens)
            if request_id in draft.admitted:
                data.resumed_req_ids.append(request_id)
    return data


def _advance(state: State, visited: list[Request]) -> frozenset[str] | None:
    """Count the tokens of visited requests as computed.

    Returns:
        In a pipeline, the requests for which this step samples a token.
    """
    draft = state.draft
    pipelined = state.settings.pipeline_depth > 1
    sampling = []
    for request in visited:
        num_tokens = draft.tokens[request.request_id]
        _count_usage(request, num_tokens, draft.debts[request.request_id])
        request.num_computed_tokens += num_tokens
        if pipelined and request.num_new_tokens <= 0:
            request.num_output_placeholders += 1
            sampling.append(request.request_id)
        if request.timers:
            state.token_timers.note(request)
    return frozenset(sampling) if pipelined else None


def _count(state: State, num_tokens: int) -> None:
    draft, counts = state.draft, state.counts
    counts.steps += 1
    counts.empty_steps += not num_tokens
    counts.scheduled_tokens += num_tokens
    counts.batched_decodes += draft.num_batched
    counts.decode_tokens += draft.num_batched
    if draft.debts:
        counts.decode_tokens += list(draft.debts.values()).count(1)
    if draft.tables:
        state.note_used_blocks()


def _count_usage(request: Request, num_tokens: int, num_new_tokens: int) -> None:
    again = request.high_water - request.num_computed_tokens
    again = min(num_tokens, again) if again > 0 else 0
    request.num_recomputed_tokens += again
    usage = request.usage
    if usage is None:
        return
    usage.recomputed_tokens += again
    if num_new_tokens > 1:
        usage.prefill_tokens += num_tokens
    else:
        usage.add_decode_tokens(num_tokens)
