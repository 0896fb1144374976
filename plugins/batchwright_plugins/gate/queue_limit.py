"""Bound what may wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.option import option
from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Reject, Verdict

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["QueueLimit"]


@frozen
class Options:
    """Options of the queue limit."""

    requests: int | None = option(
        None, "Most waiting requests.", unit="requests", default_text="no bound", ge=1
    )
    prompt_tokens: int | None = option(
        None,
        "Most prompt tokens of requests that have not run.",
        unit="tokens",
        default_text="no bound",
        ge=1,
    )


class QueueLimit(Gate):
    """Refuse a request at its arrival if it would make the queue too long.

    Requests that wait for a key count. Preempted requests count, but not their tokens. A prompt
    larger than ``prompt_tokens`` is accepted while nothing else waits, since it could otherwise
    never be served.
    """

    name = "queue-limit"
    Options = Options

    def pre_enqueue(self, request: RequestView) -> Verdict:
        view, options = self.ctx.view, self.options
        if options.requests is not None and view.num_waiting >= options.requests:
            return Reject(f"{view.num_waiting} requests wait already (requests)")
        waiting = view.num_prompt_tokens_waiting
        if (
            options.prompt_tokens is not None
            and waiting
            and waiting + request.num_prompt_tokens > options.prompt_tokens
        ):
            return Reject(
                f"{waiting} prompt tokens wait already and it brings "
                f"{request.num_prompt_tokens} (prompt_tokens = {options.prompt_tokens})"
            )
        return ADMIT
