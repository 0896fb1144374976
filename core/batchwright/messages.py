"""Messages between the scheduler, the executor and the engine in each step.

``SchedulerOutput`` is the contract between deciding and computing. It is a delta
and holds no live Request, so it may cross a process boundary.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from attrs import Factory, define, evolve, field, frozen

from batchwright.request import Finish
from batchwright.sampling_params import SamplingParams


@define
class NewRequestData:
    """A request that the executor has not seen, or has lost: everything, once.

    Read it, do not change it.

    Args:
        req_id: Its id.
        prompt_token_ids: Its prompt.
        sampling_params: Its sampling parameters.
        block_ids: Its whole block table (one KV group).
        num_computed_tokens: Tokens whose KV is already in those blocks.
        output_token_ids: Outputs known already; empty unless the executor was restarted.
        adapter: Adapter to compute it with.
        block_ids_by_group: One table a KV group, where there are several.
    """

    req_id: str
    prompt_token_ids: array[int]
    sampling_params: SamplingParams
    block_ids: list[int]
    num_computed_tokens: int
    output_token_ids: array[int] = Factory(lambda: array("I"))
    adapter: str | None = None
    block_ids_by_group: tuple[list[int], ...] = ()


@define
class CachedRequestData:
    """Requests that the executor knows: parallel columns, only what changed.

    Args:
        req_ids: Their ids, in scheduling order.
        resumed_req_ids: Those among them that were preempted or paused: for these
            ``new_block_ids`` is the whole table and replaces the old one.
        new_block_ids: Blocks appended to each one's table; None for none.
        num_computed_tokens: Tokens computed before this step.
        num_output_tokens: Output tokens that the scheduler knows before this step. An
            executor that holds more (in a pipeline) keeps them as placeholders.
    """

    req_ids: list[str] = Factory(list)
    resumed_req_ids: list[str] = Factory(list)
    new_block_ids: list[list[int] | None] = Factory(list)
    num_computed_tokens: list[int] = Factory(list)
    num_output_tokens: list[int] = Factory(list)

    def without(self, request_ids: Container[str]) -> CachedRequestData:
        """Make columns of the others."""
        keep = [request_id not in request_ids for request_id in self.req_ids]
        return CachedRequestData(
            list(compress(self.req_ids, keep)),
            [name for name in self.resumed_req_ids if name not in request_ids],
            list(compress(self.new_block_ids, keep)),
            list(compress(self.num_computed_tokens, keep)),
            list(compress(self.num_output_tokens, keep)),
        )


@frozen
class BlockCopy:
    """Copy one block's KV to another before the step computes (copy-on-write)."""

    source: int
    destination: int


@define
class SchedulerOutput:
    """The plan of one step. Read it, do not change it.

    (It is made at every step: a frozen class of this size costs 3 us to make, and
    arguments by keyword 0.3 us.)

    Args:
        step_id: Counts up from 0; ``update_from_output`` takes plans in this order.
        scheduled_new_reqs: Requests that the executor sees for the first time.
        scheduled_cached_reqs: Requests that it knows.
        num_scheduled_tokens: Scheduled tokens by request id, in scheduling order.
        total_num_scheduled_tokens: Their sum.
        scheduled_draft_token_ids: Draft tokens to verify, by request id; they are the last ones
            of that request's scheduled tokens.
        preempted_req_ids: In order of preemption; their state may be kept.
        finished_req_ids: Ended since the last plan; their state must be dropped.
        block_copies: Copies to make before computing.
        swap_outs: By request id, (device block, host block) pairs to copy out first.
        swap_ins: By request id, (host block, device block) pairs to copy in first.
        blocks_to_zero: Blocks whose old content must not be read.
        extras: Metadata for the worker side of each feature, by feature name.
    """

    step_id: int
    scheduled_new_reqs: list[NewRequestData]
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int
    scheduled_draft_token_ids: dict[str, list[int]] = Factory(dict)
    preempted_req_ids: list[str] = Factory(list)
    finished_req_ids: list[str] = Factory(list)
    block_copies: list[BlockCopy] = Factory(list)
    swap_outs: dict[str, list[tuple[int, int]]] = Factory(dict)
    swap_ins: dict[str, list[tuple[int, int]]] = Factory(dict)
    blocks_to_zero: list[int] = Factory(list)
    extras: dict[str, Any] = Factory(dict)

    def starts(self) -> Iterator[tuple[str, int]]:
        """Yield each request's id and the first position that is computed of it."""
        for new in self.scheduled_new_reqs:
            yield new.req_id, new.num_computed_tokens
        cached = self.scheduled_cached_reqs
        yield from zip(cached.req_ids, cached.num_computed_tokens, strict=True)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to compute (there may still be ends to note)."""
        return not self.num_scheduled_tokens

    def without(self, request_ids: Container[str]) -> SchedulerOutput:
        """Make a plan that computes the others as this one does."""
        granted = {k: v for k, v in self.num_scheduled_tokens.items() if k not in request_ids}
        drafts = self.scheduled_draft_token_ids
        return evolve(
            self,
            scheduled_new_reqs=[r for r in self.scheduled_new_reqs if r.req_id not in request_ids],
            scheduled_cached_reqs=self.scheduled_cached_reqs.without(request_ids),
            num_scheduled_tokens=granted,
            total_num_scheduled_tokens=sum(granted.values()),
            scheduled_draft_token_ids={k: v for k, v in drafts.items() if k not in request_ids},
            swap_outs={k: v for k, v in self.swap_outs.items() if k not in request_ids},
            swap_ins={k: v for k, v in self.swap_ins.items() if k not in request_ids},
        )


@frozen
class TokenLogprobs:
    """Log-probabilities (natural) at one output position, after temperature 1.

    Args:
        token_id: The sampled token.
        logprob: Its log-probability.
        top: (token id, log-probability) of the likeliest tokens, likeliest first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@define
class ModelOutput:
    """Results of the executor for one plan.

    Args:
        req_ids: The plan's requests, in any order.
        sampled_token_ids: Parallel to ``req_ids``: no token if the scheduled tokens did not
            reach the last known token; one where it did; with drafts, the accepted ones and one
            more.
        logprobs: By request id, one entry a sampled token, where asked for.
        draft_token_ids: By request id, drafts proposed for the next step.
        errors: By request id, why this request could not be computed; it ends alone.
        extras: Answers of the worker sides of features, by feature name.
    """

    req_ids: list[str] = Factory(list)
    sampled_token_ids: list[list[int]] = Factory(list)
    logprobs: dict[str, list[TokenLogprobs]] = Factory(dict)
    draft_token_ids: dict[str, list[int]] = Factory(dict)
    errors: dict[str, str] = Factory(dict)
    extras: dict[str, Any] = Factory(dict)


@define
class StepOutputs:
    """Results of one step, in parallel columns.

    Args:
        step_id: The plan's.
        req_ids: Requests with new tokens.
        new_token_ids: Their new tokens, parallel to ``req_ids``.
        finished: By request id, how it ended: in this step, or (aborts, errors)
            since the last one.
        logprobs: By request id, one entry a new token, where asked for.
    """

    step_id: int
    req_ids: list[str] = Factory(list)
    new_token_ids: list[list[int]] = Factory(list)
    finished: dict[str, Finish] = Factory(dict)
    logprobs: dict[str, list[TokenLogprobs]] = Factory(dict)


@define(kw_only=True)
class RequestOutput:
    """A request and its output so far, as its caller sees it; made by the engine.

    Args:
        request_id: Its id.
        text: Output text so far (empty without a tokenizer).
        token_ids: Output token ids so far.
        new_text: Text that this output adds.
        new_token_ids: Tokens that this output adds.
        finish_reason: ``stop``, ``length``, ``abort``, ``error``; None while running.
        detail: Exact cause of its end (see ``Finish.detail``).
        logprobs: One entry an output token, where asked for.
        metrics: Timings and counts (seconds, tokens), filled when it ends.
    """

    request_id: str
    text: str = ""
    token_ids: list[int] = Factory(list)
    new_text: str = ""
    new_token_ids: Sequence[int] = ()
    finish_reason: str | None = None
    detail: str = ""
    logprobs: list[TokenLogprobs] | None = None
    metrics: Mapping[str, float | int | None] = field(factory=dict)

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None
