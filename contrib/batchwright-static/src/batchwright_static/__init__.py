"""Static batching: a batch runs until its longest request has ended, then the next is formed."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import RequestView, SchedulerBase, Step, StepScheduler, hookimpl, option

__all__ = ["StaticBatching", "StaticOptions"]


@frozen
class StaticOptions:
    """Options of the scheduler ``static``."""

    batch_size: int | None = option(
        None, "Most requests of a batch; none: max_num_seqs.", unit="requests", ge=1
    )


class StaticBatching(StepScheduler):
    """Forms a batch of what waits, runs it to the end of its longest request, then the next.

    A batch takes waiting requests in the policy's order, as many as have seats and whose
    longest answers (``max_tokens``) fit into the KV pool together: it does not run out of
    blocks. All prompts are computed first, over several steps if the token budget asks for
    it; then every request of the batch decodes one token a step. A request that ends early
    leaves its seat and its blocks unused until the others have ended.

    An executor that pads a batch computes those empty seats as well. Ours do not, so that
    steps here are faster than theirs. Starves none: each batch ends, and the policy's order
    decides about the next. O(batch) a step.
    """

    name = "static"
    Options = StaticOptions

    def setup(self) -> None:
        self._chosen: set[str] = set()

    def plan(self, step: Step) -> None:
        running = list(self.view.running)
        if not running:
            self._chosen = self._choose()
        for request in running:
            if _lacks_prompt(request):
                step.schedule(request)
        while (first := step.next_waiting()) and first.request_id in self._chosen:
            if step.admit() is None:
                break
            self._chosen.remove(first.request_id)
        if running and not self.view.num_scheduled_tokens:
            self._decode(step)

    def _decode(self, step: Step) -> None:
        """Compute a token of each request of the batch: all prompts are computed."""
        self._chosen.clear()
        for request in list(self.view.running):
            step.schedule(request)
        step.hold("the batch that runs has not ended")

    def _choose(self) -> set[str]:
        """Choose the requests of the next batch: the first, and those that fit beside it."""
        chosen: set[str] = set()
        num_blocks = 0
        for request in self.view.next_waiting(self.options.batch_size or self.sizes.max_num_seqs):
            num_blocks += self._most_blocks(request)
            if chosen and num_blocks > self.kv_manager.num_usable_blocks:
                break
            chosen.add(request.request_id)
        return chosen

    def _most_blocks(self, request: RequestView) -> int:
        """Blocks that a request takes at most, slots for drafts included."""
        num_tokens = request.num_prompt_tokens + request.max_tokens
        num_tokens = min(num_tokens + self.sizes.num_lookahead_tokens, self.sizes.max_model_len)
        return -(-num_tokens // self.sizes.block_size)


def _lacks_prompt(request: RequestView) -> bool:
    """Tell whether more than the next output is to be computed of a running request."""
    num_missing = request.num_tokens - request.num_computed_tokens
    return num_missing > 1 or request.num_computed_tokens < request.num_prompt_tokens


@hookimpl
def batchwright_register_scheduler() -> list[type[SchedulerBase]]:
    """Offer the scheduler ``static``."""
    return [StaticBatching]
