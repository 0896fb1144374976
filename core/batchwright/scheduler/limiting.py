"""Asking limits how much one request may get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.scheduler.faults import RequestFault

if TYPE_CHECKING:
    from batchwright.request import Request
    from batchwright.scheduler.state import State


def limited(state: State, request: Request, num_tokens: int) -> int:
    """Cut a grant by every limit, in the order of the configuration.

    Raises:
        RequestFault: A limit failed on this request.
    """
    if state.bypass_choices:
        return num_tokens
    for limit in state.components.limits:
        if num_tokens == 1 and not limit.affects_decode:
            continue
        try:
            answer = limit.grant(request.view, num_tokens, state.view)
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
            raise RequestFault(limit, "grant", what) from error
        if isinstance(answer, bool) or not isinstance(answer, int) or answer < 0:
            what = f"returned {answer!r}, expected 0 to {num_tokens} tokens"
            raise RequestFault(limit, "grant", what)
        num_tokens = min(num_tokens, answer)
    return num_tokens
