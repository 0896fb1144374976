"""Asking limits how much one request may get."""

from __future__ import annotations

from batchwright.request import Request
from batchwright.scheduler.state import State


def limited(state: State, request: Request, num_tokens: int) -> int:
    """Cut a grant by every limit, in the order of the configuration.

    Raises:
        RequestFault: A limit failed on this request.
    """
    for limit in () if state.bypass_choices else state.components.limits:
        if num_tokens > 1 or limit.affects_decode:
            answer = state.faults.ask_about(
                request,
                limit,
                "max_tokens",
                num_tokens,
                state.view,
                check=lambda answer: type(answer) is int and answer >= 0,
                expected=f"0 to {num_tokens} tokens",
            )
            num_tokens = min(num_tokens, answer)
    return num_tokens
