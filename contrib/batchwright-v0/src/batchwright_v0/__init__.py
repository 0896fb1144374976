"""The loop of vLLM V0: whole prompts first, then one token of each running request."""

from __future__ import annotations

from math import inf

from attrs import frozen

from batchwright.plugin import RequestView, SchedulerBase, Step, StepScheduler, hookimpl, option

__all__ = ["V0Options", "V0Scheduler"]


@frozen
class V0Options:
    """Options of the scheduler ``v0``."""

    delay_factor: float = option(
        0.0,
        "Least wait of the oldest request before prompts are admitted beside running requests,"
        " in durations of the last prompt step.",
        ge=0,
        lt=inf,
    )
    watermark: float = option(0.01, "Share of the pool that an admission leaves free.", ge=0, lt=1)


class V0Scheduler(StepScheduler):
    """Plans as vLLM did before its V1 scheduler: a step computes prompts, or decodes.

    1. Prompts: waiting requests are admitted in the policy's order, each with its whole
       prompt, while budget, seats and blocks last. The first that does not fit stops it.
    2. Decodes: only if no prompt is computed, each running request gets one token, first
       come first. If blocks run out, the last request that was admitted gives up its own
       (``scheduler.victim`` may name another), and is computed again from the head of the
       queue.

    With ``delay_factor`` prompts gather: while requests run, none is admitted before the
    first one has waited so many times as long as the last prompt step took.

    Differences from the original: a preempted request is recomputed (there is no queue of
    swapped ones); a prompt longer than the budget is computed in pieces instead of being
    refused; there is no beam search. Running requests stand still while prompts keep
    coming. O(running) a step.
    """

    name = "v0"
    Options = V0Options

    def setup(self) -> None:
        self._last_start = 0.0
        self._last_was_prompt = False
        self._prompt_time = 0.0

    def plan(self, step: Step) -> None:
        now = self.view.now
        if self._last_was_prompt:
            self._prompt_time = now - self._last_start
        self._last_start = now
        self._last_was_prompt = self._compute_prompts(step)
        if not self._last_was_prompt:
            self._decode(step)

    def _compute_prompts(self, step: Step) -> bool:
        """Go on with a prompt in pieces, and admit requests; whether any prompt is computed."""
        running = list(self.view.running)
        for request in running:
            if _lacks_prompt(request):
                step.schedule(request)
        obstacle = self._gathering() if running else ""
        while not obstacle and (first := step.next_waiting()) is not None:
            obstacle = self._obstacle(first, has_running=bool(running))
            if not obstacle and step.admit() is None:
                break
        if obstacle:
            step.hold(obstacle)
        return self.view.num_scheduled_tokens > 0

    def _gathering(self) -> str:
        """Say that prompts gather still; nothing if the first has waited long enough."""
        delay = self.options.delay_factor * self._prompt_time
        first = next(iter(self.view.next_waiting(1)), None)
        if first is None or not delay or self.view.now - first.arrival_time > delay:
            return ""
        return "prompts gather"

    def _obstacle(self, request: RequestView, *, has_running: bool) -> str:
        """Say why the first waiting request is not admitted now; nothing if it may be."""
        kv, num_left = self.kv_manager, self.view.num_tokens_left
        is_first = num_left == self.settings.max_num_scheduled_tokens
        if not is_first and request.num_tokens - kv.hit_length(request) > num_left:
            return "its prompt does not fit into what is left of the step's budget"
        num_blocks = kv.num_needed(request, request.num_tokens)
        num_spare = int(self.options.watermark * kv.num_usable_blocks)
        if has_running and num_blocks + num_spare > kv.num_free_blocks:
            return f"needs {num_blocks} KV blocks, with {num_spare} to spare"
        return ""

    def _decode(self, step: Step) -> None:
        """Give each running request a token; the last ones give up their blocks for it."""
        for request in list(self.view.running):
            if not step.schedule(request):
                break


def _lacks_prompt(request: RequestView) -> bool:
    """Tell whether more than the next output is to be computed of a running request."""
    num_missing = request.num_tokens - request.num_computed_tokens
    return num_missing > 1 or request.num_computed_tokens < request.num_prompt_tokens


@hookimpl
def batchwright_register_scheduler() -> list[type[SchedulerBase]]:
    """Offer the scheduler ``v0``."""
    return [V0Scheduler]
