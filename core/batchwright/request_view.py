"""A read-only view of a request, for components."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from batchwright.read_only import Read
from batchwright.sampling_params import SamplingParams

if TYPE_CHECKING:
    from batchwright.request import CacheKey, Finish, Request, RequestStatus


class RequestView:
    """A request as components see it. There is one view a request, so ``is`` works.

    A component keeps what it wants to remember about a request in its own data:
    ``ctx.data(request)``.
    """

    __slots__ = ("_request",)

    _request: Request

    request_id: Read[str] = Read()
    status: Read[RequestStatus] = Read()
    finish: Read[Finish | None] = Read()
    """Its end; None while it lives."""
    sampling_params: Read[SamplingParams] = Read()
    max_tokens: Read[int] = Read()
    """Most output tokens: max_tokens, or what max_model_len leaves."""
    prompt_token_ids: Read[Sequence[int]] = Read()
    """A copy of the prompt's token ids."""
    output_token_ids: Read[Sequence[int]] = Read()
    """A copy of the output token ids so far."""
    num_prompt_tokens: Read[int] = Read()
    num_output_tokens: Read[int] = Read()
    num_tokens: Read[int] = Read()
    """Known tokens: prompt and outputs so far."""
    num_computed_tokens: Read[int] = Read()
    """Tokens whose KV exists or is being computed."""
    num_new_tokens: Read[int] = Read()
    """Prompt + output + draft tokens + placeholders - computed (tokens)."""
    priority: Read[int] = Read()
    """Smaller is more urgent."""
    arrival_time: Read[float] = Read()
    """Seconds on ``ctx.clock``."""
    scheduled_time: Read[float | None] = Read()
    """Seconds on ``ctx.clock`` of the first scheduled tokens."""
    first_token_time: Read[float | None] = Read()
    """Seconds on ``ctx.clock``."""
    finish_time: Read[float | None] = Read()
    """Seconds on ``ctx.clock``."""
    client: Read[str | None] = Read()
    group: Read[str | None] = Read()
    slo_class: Read[str | None] = Read()
    deadline: Read[float | None] = Read()
    """Seconds on ``ctx.clock``."""
    hints: Read[Mapping[str, Any]] = Read()
    cache_salt: Read[str | None] = Read()
    adapter: Read[str | None] = Read()
    cache_keys: Read[Sequence[CacheKey]] = Read()
    """Inputs beyond tokens, for its blocks' identity."""
    features: Read[Mapping[str, Any]] = Read()
    """By feature, what this request says to it."""
    num_preemptions: Read[int] = Read()
    num_policy_preemptions: Read[int] = Read()
    """Preemptions by the policy; from ``ctx.sizes.max_policy_preemptions`` on it is immune."""
    num_cached_tokens: Read[int | None] = Read()
    """Tokens hit at first admission; None before it."""
    num_recomputed_tokens: Read[int] = Read()
    """Tokens computed again because of preemption."""
    waiting_reason: Read[str] = Read()
    """Why it waits: the gate and its reason, or its key."""

    def __init__(self, request: Request) -> None:
        object.__setattr__(self, "_request", request)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"a component may not set {name!r} on a request; "
            "keep your own state in ctx.data(request)"
        )

    def __repr__(self) -> str:
        return f"<RequestView of {self._request!r}>"

    def token_bytes(self, start: int, stop: int) -> bytes:
        """Known tokens ``[start, stop)``, 4 bytes each, little-endian; for hashing."""
        tokens = self._request.token_ids[start:stop]
        if sys.byteorder == "big":
            tokens.byteswap()
        return tokens.tobytes()
