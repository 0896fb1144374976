"""Turns a finished draft into the plan that the executor gets."""

from __future__ import annotations

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.request import Request
from batchwright.scheduler.fence import Flight
from batchwright.scheduler.state import State


def commit_plan(state: State) -> SchedulerOutput:
    """Commit the draft: counts advance, the plan is in flight."""
    draft = state.draft
    requests = [state.running[request_id] for request_id in draft.tokens]
    new, cached = _sort_out(state, requests)
    plan = SchedulerOutput(
        step_id=state.step_id,
        scheduled_new_reqs=[_new_request(state, request) for request in new],
        scheduled_cached_reqs=_cached_requests(state, cached),
        num_scheduled_tokens=draft.tokens,
        total_num_scheduled_tokens=draft.num_scheduled_tokens,
        scheduled_draft_token_ids=draft.draft_tokens,
        preempted_req_ids=[request.request_id for request in draft.preempted],
        finished_req_ids=state.finished_ids,
    )
    state.finished_ids = []
    sampling = _advance(state)
    pipelined = state.settings.pipeline_depth > 1
    state.fence.flights.append(Flight(plan, requests, sampling if pipelined else None))
    state.step_id += 1
    state.step_epoch.value += 1
    return plan


def _sort_out(state: State, requests: list[Request]) -> tuple[list[Request], list[Request]]:
    """Split into those that the executor does not know, and those that it does."""
    if not state.draft.admitted:
        return [], requests
    new = [request for request in requests if not request.on_executor]
    return new, [request for request in requests if request.on_executor]


def _new_request(state: State, request: Request) -> NewRequestData:
    request.on_executor = True
    return NewRequestData(
        req_id=request.request_id,
        prompt_token_ids=request.prompt_token_ids,
        sampling_params=request.sampling_params,
        block_ids=state.draft.tables[request.request_id],
        num_computed_tokens=request.num_computed_tokens,
        output_token_ids=request.output_token_ids,
        adapter=request.adapter,
    )


def _cached_requests(state: State, requests: list[Request]) -> CachedRequestData:
    admitted, tables = state.draft.admitted, state.draft.tables
    ids = [request.request_id for request in requests]
    return CachedRequestData(
        req_ids=ids,
        resumed_req_ids=[i for i in ids if i in admitted] if admitted else [],
        new_block_ids=[tables.get(i) for i in ids] if tables else [None] * len(ids),
        num_computed_tokens=[r.computed_base + r.epoch.value for r in requests],
        num_output_tokens=[len(r.token_ids) - r.num_prompt_tokens for r in requests],
    )


def _advance(state: State) -> frozenset[str]:
    """Let computed tokens advance: of steady requests together, of others one by one.

    Returns:
        In a pipeline, the requests for which this step samples a token.
    """
    draft = state.draft
    pipelined = state.settings.pipeline_depth > 1
    sampling = []
    for request_id, request in draft.granted.items():
        num_tokens = draft.tokens[request_id]
        _account_for(request, num_tokens, draft.debts[request_id])
        request.num_computed_tokens += num_tokens
        if pipelined and request.debt <= 0:
            request.num_output_placeholders += 1
            sampling.append(request_id)
        if request.marks:
            state.marks.reach(request)
    if draft.num_carried:
        for request in state.steady.advance():
            state.marks.reach(request)
    return frozenset(sampling)


def _account_for(request: Request, num_tokens: int, debt: int) -> None:
    again = min(num_tokens, max(0, request.high_water - request.num_computed_tokens))
    request.num_recomputed_tokens += again
    account = request.account
    if account is None:
        return
    account.recomputed_tokens += again
    if debt > 1:
        account.prefill_tokens += num_tokens
    else:
        account.decoded(num_tokens)
