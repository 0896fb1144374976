"""Named mistakes that could be made in the scheduler, put in one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from batchwright.protocols import PrefixHit
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright_plugins.gate.full_need import FullNeed
from batchwright_plugins.gate.watermark import Watermark
from batchwright_plugins.kv.paged import PagedKV
from batchwright_plugins.limit.long_prefill import LongPrefill
from batchwright_plugins.policy.fcfs import Fcfs
from batchwright_plugins.victim.lifo import Lifo
from batchwright_plugins.victim.lowest_priority import LowestPriority

__all__ = ["MUTATIONS"]

Mutation = Callable[[pytest.MonkeyPatch], None]
MUTATIONS: dict[str, Mutation] = {}


def mutation(make: Mutation) -> Mutation:
    """Register one under its function's name."""
    MUTATIONS[make.__name__] = make
    return make


@mutation
def tie_to_the_latest_victim(patch: pytest.MonkeyPatch) -> None:
    """Of equally unimportant requests, the one that was admitted last yields."""

    def choose(self: Any, running: Any, needy: Any, view: Any) -> Any:
        return max(reversed(list(running)), key=lambda r: (r.priority, r.arrival_time))

    patch.setattr(LowestPriority, "choose", choose)


@mutation
def first_in_first_out(patch: pytest.MonkeyPatch) -> None:
    """The request that was admitted first yields."""
    patch.setattr(Lifo, "choose", lambda self, running, needy, view: next(iter(running)))


@mutation
def no_refund(patch: pytest.MonkeyPatch) -> None:
    """A victim's grant is not returned to the budget."""
    take_out = StepInProgress.take_out

    def keep(self: StepInProgress, request: Any) -> int:
        num_tokens = take_out(self, request)
        self.num_tokens_left -= num_tokens
        return num_tokens

    patch.setattr(StepInProgress, "take_out", keep)


@mutation
def heads_freed_before_tails(patch: pytest.MonkeyPatch) -> None:
    """A request's first blocks return to the pool first."""
    release = PagedKV.free
    patch.setattr(PagedKV, "free", lambda self, ids: release(self, list(reversed(ids))))


@mutation
def hashed_blocks_freed_to_the_front(patch: pytest.MonkeyPatch) -> None:
    """Cached blocks are reused before the empty ones."""

    def free(self: PagedKV, block_ids: Sequence[int]) -> None:
        freed = []
        for block_id in reversed(block_ids):
            self._references[block_id] -= 1
            if not self._references[block_id]:
                freed.append(block_id)
        self._free.add_empty(freed)

    patch.setattr(PagedKV, "free", free)


@mutation
def watermark_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """One block fewer is left free."""
    setup = Watermark.setup

    def lower(self: Watermark) -> None:
        setup(self)
        self.num_blocks -= 1

    patch.setattr(Watermark, "setup", lower)


@mutation
def watermark_in_an_empty_engine(patch: pytest.MonkeyPatch) -> None:
    """The watermark counts though nothing runs."""
    sized = Watermark.filter

    class Crowded:
        def __init__(self, view: Any) -> None:
            self.num_running, self.num_free_blocks = 1, view.num_free_blocks

    def always(self: Watermark, request: Any, need: Any, hit: Any, view: Any) -> Any:
        return sized(self, request, need, hit, Crowded(view))  # type: ignore[arg-type]

    patch.setattr(Watermark, "filter", always)


@mutation
def hit_not_capped(patch: pytest.MonkeyPatch) -> None:
    """A prompt of whole blocks that are all cached may hit all but its last token."""
    lookup = PagedKV.lookup

    def whole(self: PagedKV, request: Any) -> PrefixHit:
        hit = lookup(self, request)
        size, known = self._block_size, request.num_tokens
        if hit.num_tokens + size == known:
            found = self._index.find(self._table(request), known // size)
            if len(found) == known // size:
                idle = sum(not self._references[block_id] for block_id in found)
                return PrefixHit(known - 1, tuple(found), idle)
        return hit

    patch.setattr(PagedKV, "lookup", whole)


@mutation
def threshold_for_a_lone_request(patch: pytest.MonkeyPatch) -> None:
    """A long prompt is cut though no request waits for it."""

    def grant(self: LongPrefill, request: Any, num_tokens: int, view: Any) -> int:
        threshold = self.options.threshold
        if self.options.adaptive:
            requests = view.num_running + view.num_waiting
            share = self.ctx.sizes.max_num_batched_tokens // requests
            threshold = max(threshold, share)
        return min(num_tokens, threshold)

    patch.setattr(LongPrefill, "max_tokens", grant)


@mutation
def preempted_to_the_back(patch: pytest.MonkeyPatch) -> None:
    """A preempted request queues up anew."""
    patch.setattr(Fcfs, "requeue", lambda self, request: self.queue.add(request))


@mutation
def null_block_handed_out(patch: pytest.MonkeyPatch) -> None:
    """Block 0 is not reserved."""
    init = PagedKV.__init__

    def all_blocks(self: PagedKV, options: Any, ctx: Any) -> None:
        init(self, options, ctx)
        self._free.add_empty([0])

    patch.setattr(PagedKV, "__init__", all_blocks)


@mutation
def published_a_step_late(patch: pytest.MonkeyPatch) -> None:
    """A block can be shared from the step after the one that fills it."""
    allocate = PagedKV.allocate

    def late(self: PagedKV, request: Any, num_tokens: int, final: int, *hit: Any) -> Any:
        before = hit[0].num_tokens if hit else request.num_computed_tokens
        return allocate(self, request, num_tokens, min(final, before), *hit)

    patch.setattr(PagedKV, "allocate", late)


@mutation
def admission_by_the_first_chunk(patch: pytest.MonkeyPatch) -> None:
    """Full-need asks only for this step's blocks."""
    sized = FullNeed.filter

    def step_only(self: FullNeed, request: Any, need: Any, hit: Any, view: Any) -> Any:
        short = type(need)(need.num_step_blocks, need.num_step_blocks)
        return sized(self, request, short, hit, view)

    patch.setattr(FullNeed, "filter", step_only)


@mutation
def admission_in_spite_of_a_shortage(patch: pytest.MonkeyPatch) -> None:
    """Waiting requests are admitted in a step with a preemption."""
    preempt = Preemption.preempt

    def forgetful(self: Preemption, request: Any, cause: str) -> None:
        preempt(self, request, cause)
        self._state.step.shortage = False

    patch.setattr(Preemption, "preempt", forgetful)
