"""Turns a finished draft into the plan that the executor gets."""

from __future__ import annotations

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.request import Request
from batchwright.scheduler.in_flight import InFlightStep
from batchwright.scheduler.state import State


def commit_plan(state: State) -> SchedulerOutput:
    """Commit the draft: counts advance, the plan is in flight."""
    draft = state.step
    visited = (
        [state.requests[request_id] for request_id in draft.num_new_tokens]
        if draft.num_new_tokens
        else []
    )
    new = [r for r in draft.admitted.values() if not r.on_executor] if draft.admitted else []
    plan = SchedulerOutput(
        state.step_id,
        [_new_request(state, request) for request in new] if new else [],
        _cached_requests(state, visited),
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
    columns = state.steady.columns
    requests = columns.lend_requests() if draft.num_carried else visited
    if draft.num_carried and visited:
        requests = requests + visited
    flight = InFlightStep(
        plan, requests, draft.num_carried, columns.version, _advance(state, visited)
    )
    state.in_flight.steps.append(flight)
    state.step_id += 1
    state.step_epoch.value += 1
    return plan


def _new_request(state: State, request: Request) -> NewRequestData:
    return NewRequestData(
        request.request_id,
        request.prompt_token_ids,
        request.sampling_params,
        state.step.tables[request.request_id],
        request.num_computed_tokens,
        request.output_token_ids,
        request.adapter,
    )


def _cached_requests(state: State, visited: list[Request]) -> CachedRequestData:
    """Columns of all that the executor knows: carried ones first, then visited ones."""
    draft, steady = state.step, state.steady
    if draft.num_carried:
        data = steady.columns.cached_data(steady.epoch.value, draft.tables)
    else:
        data = CachedRequestData()
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
    """Let computed tokens advance: of carried requests together, of others one by one.

    Returns:
        In a pipeline, the requests for which this step samples a token.
    """
    draft = state.step
    pipelined = state.settings.pipeline_depth > 1
    sampling = []
    for request in visited:
        num_tokens = draft.tokens[request.request_id]
        _account_for(request, num_tokens, draft.num_new_tokens[request.request_id])
        request.num_computed_tokens += num_tokens
        if pipelined and request.num_new_tokens <= 0:
            request.num_output_placeholders += 1
            sampling.append(request.request_id)
        if request.marks:
            state.marks.reach(request)
    if draft.num_carried:
        for request in state.steady.advance():
            state.marks.reach(request)
    return frozenset(sampling) if pipelined else None


def _count(state: State, num_tokens: int) -> None:
    draft, counts = state.step, state.counts
    counts.steps += 1
    counts.empty_steps += not num_tokens
    counts.scheduled_tokens += num_tokens
    counts.carried_grants += draft.num_carried
    counts.decode_grants += draft.num_carried
    if draft.num_new_tokens:
        counts.decode_grants += list(draft.num_new_tokens.values()).count(1)
    if draft.tables:
        state.note_used_blocks()


def _account_for(request: Request, num_tokens: int, num_new_tokens: int) -> None:
    again = request.high_water - request.num_computed_tokens
    again = min(num_tokens, again) if again > 0 else 0
    request.num_recomputed_tokens += again
    account = request.account
    if account is None:
        return
    account.recomputed_tokens += again
    if num_new_tokens > 1:
        account.prefill_tokens += num_tokens
    else:
        account.decoded(num_tokens)
