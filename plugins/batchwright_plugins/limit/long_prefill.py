"""Keep one long prompt from taking the whole step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Limit

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["LongPrefill"]


@frozen
class Options:
    """Options of the long-prefill limit."""

    threshold: int = option(512, "Most tokens of one request in a step.", unit="tokens", ge=1)
    adaptive: bool = option(
        False,
        "True to keep the limit at or above the step's budget divided by the number of requests.",
    )


class LongPrefill(Limit):
    """Schedule at most ``threshold`` tokens a step for a long prompt.

    It is ignored while there is a single request in the system, which then would wait for none
    (running and waiting requests count, those that wait for a key, too). The adaptive variant
    raises the threshold to ``max_num_batched_tokens // requests``, so that the budget is used
    up. vLLM's ``long_prefill_token_threshold``.
    """

    name = "long-prefill"
    Options = Options

    def setup(self) -> None:
        longest = self.ctx.sizes.max_model_len
        if self.options.threshold > longest:
            raise ConfigError(
                f"threshold = {self.options.threshold} exceeds max_model_len = {longest}, "
                "so that it would never cut anything",
                path=f"{self.ctx.path}.threshold",
            )

    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        threshold: int = self.options.threshold
        if num_tokens <= threshold:
            return num_tokens
        num_requests = view.num_running + view.num_waiting
        if num_requests <= 1:
            return num_tokens
        if self.options.adaptive:
            share = self.ctx.sizes.max_num_batched_tokens // num_requests
            threshold = max(threshold, share)
        return min(num_tokens, threshold)
