"""Steps of vLLM as observers see them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput, StepOutputs
from batchwright.step_record import StepRecord

if TYPE_CHECKING:
    from batchwright_vllm.hooks import Hooks

__all__ = ["outputs_of", "record_of"]


def record_of(output: Any, hooks: Hooks) -> StepRecord:
    """Return a plan of vLLM's and its circumstances.

    Args:
        output: vLLM's plan; ``num_computed_tokens`` of its requests has advanced already.
        hooks: The hooks of vLLM's scheduler.
    """
    tokens: dict[str, int] = output.num_scheduled_tokens
    served, cached = hooks.served, output.scheduled_cached_reqs
    tables = {data.req_id: list(data.block_ids[0]) for data in output.scheduled_new_reqs}
    for request_id, block_ids in zip(cached.req_ids, cached.new_block_ids, strict=True):
        if block_ids is not None and block_ids[0]:
            tables[request_id] = list(block_ids[0])
    visited = {
        request_id: max(
            num_tokens,
            served[request_id].num_tokens - served[request_id].num_computed_tokens + num_tokens,
        )
        for request_id, num_tokens in tokens.items()
    }
    return StepRecord(
        plan=_plan(output, tables, hooks),
        view=hooks.view,
        budget=hooks.budget,
        visited=visited,
        num_batched=0,
        new_blocks=tables,
        waiting_reasons=hooks.queue.new_reasons,
        shortage="shortage" in hooks.preempted.values(),
        stopped_by=hooks.admission.stopped_by,
        preempted_for={},
        admitted=hooks.admitted.by_id,
    )


def _plan(output: Any, tables: dict[str, list[int]], hooks: Hooks) -> SchedulerOutput:
    cached = output.scheduled_cached_reqs
    new = [
        NewRequestData(
            data.req_id,
            array("I", data.prompt_token_ids or ()),
            hooks.served[data.req_id].sampling_params,
            tables[data.req_id],
            data.num_computed_tokens,
        )
        for data in output.scheduled_new_reqs
    ]
    columns = CachedRequestData(
        list(cached.req_ids),
        list(cached.resumed_req_ids),
        [tables.get(request_id) for request_id in cached.req_ids],
        list(cached.num_computed_tokens),
        list(cached.num_output_tokens),
    )
    return SchedulerOutput(
        hooks.step_id,
        new,
        columns,
        output.num_scheduled_tokens,
        output.total_num_scheduled_tokens,
        output.scheduled_spec_decode_tokens,
        list(hooks.preempted),
        list(output.finished_req_ids),
    )


def outputs_of(step_id: int, outputs: dict[int, Any]) -> StepOutputs:
    """Return what a step of vLLM brought, for observers."""
    made = StepOutputs(step_id)
    for client in outputs.values():
        for output in client.outputs:
            if output.new_token_ids:
                made.req_ids.append(output.request_id)
                made.new_token_ids.append(list(output.new_token_ids))
    return made
