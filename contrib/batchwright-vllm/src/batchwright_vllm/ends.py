"""The exact cause of the end of a request of vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.request import Request

__all__ = ["detail_of"]


def detail_of(request: Request, reason: str) -> str:
    """Return the detail of ``Finish`` for an ended request.

    Args:
        request: vLLM's.
        reason: The reason of a component that ended it; empty: none did.
    """
    if reason:
        return reason
    status = request.status.name
    if status == "FINISHED_ABORTED":
        return "aborted"
    if status == "FINISHED_LENGTH_CAPPED":
        at_cap = request.num_output_tokens >= request.max_tokens
        return "max_tokens" if at_cap else "max_model_len"
    if status == "FINISHED_STOPPED":
        stop = request.stop_reason
        if stop is None:
            return "eos"
        return f"stop_token:{stop}" if isinstance(stop, int) else f"stop_string:{stop}"
    return status.removeprefix("FINISHED_").lower()
