"""What components see of a request: everything, read-only."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright.request import CacheKey, Finish, Request, RequestStatus
    from batchwright.sampling_params import SamplingParams

__all__ = ["RequestView"]


class RequestView:
    """A request as components see it. There is one view a request, so ``is`` works.

    A component keeps what it wants to remember about a request in
    ``request.state[ctx.slot]``, the one thing here that it may write.
    """

    __slots__ = ("_request",)

    _request: Request

    def __init__(self, request: Request) -> None:
        object.__setattr__(self, "_request", request)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a component may not set {name!r} on a request; "
            "keep your own state in request.state[ctx.slot]"
        )

    def __repr__(self) -> str:
        request = self._request
        return (
            f"<RequestView {request.request_id!r} {request.status.name} "
            f"prompt={request.num_prompt_tokens} output={request.num_output_tokens} "
            f"computed={request.num_computed_tokens}>"
        )

    @property
    def request_id(self) -> str:
        return self._request.request_id

    @property
    def status(self) -> RequestStatus:
        return self._request.status

    @property
    def finish(self) -> Finish | None:
        """How it ended; None while it lives."""
        return self._request.finish

    @property
    def sampling_params(self) -> SamplingParams:
        return self._request.sampling_params

    @property
    def max_tokens(self) -> int:
        """The cap on output tokens: max_tokens, or what max_model_len leaves."""
        return self._request.max_tokens

    @property
    def prompt_token_ids(self) -> Sequence[int]:
        """A copy of the prompt's token ids."""
        return self._request.prompt_token_ids

    @property
    def output_token_ids(self) -> Sequence[int]:
        """A copy of the output token ids so far."""
        return self._request.output_token_ids

    @property
    def num_prompt_tokens(self) -> int:
        return self._request.num_prompt_tokens

    @property
    def num_output_tokens(self) -> int:
        return self._request.num_output_tokens

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and outputs so far."""
        return self._request.num_tokens

    def token_bytes(self, start: int, stop: int) -> bytes:
        """Known tokens ``[start, stop)``, 4 bytes each, little-endian; for hashing."""
        tokens = self._request.token_ids[start:stop]
        if sys.byteorder == "big":
            tokens.byteswap()
        return tokens.tobytes()

    @property
    def num_draft_tokens(self) -> int:
        return len(self._request.draft_token_ids)

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose KV exists or is being computed by a step in flight."""
        return self._request.num_computed_tokens

    @property
    def debt(self) -> int:
        """Prompt + output + draft tokens + placeholders - computed (tokens)."""
        return self._request.debt

    @property
    def priority(self) -> int:
        """Smaller is more urgent."""
        return self._request.priority

    @property
    def arrival_time(self) -> float:
        """Seconds on ``ctx.clock``."""
        return self._request.arrival_time or 0.0

    @property
    def scheduled_time(self) -> float | None:
        """Seconds on ``ctx.clock`` of the first grant."""
        return self._request.scheduled_time

    @property
    def first_token_time(self) -> float | None:
        return self._request.first_token_time

    @property
    def finish_time(self) -> float | None:
        return self._request.finish_time

    @property
    def client(self) -> str | None:
        return self._request.client

    @property
    def group(self) -> str | None:
        return self._request.group

    @property
    def slo_class(self) -> str | None:
        return self._request.slo_class

    @property
    def deadline(self) -> float | None:
        """Seconds on ``ctx.clock``."""
        return self._request.deadline

    @property
    def hints(self) -> Mapping[str, Any]:
        return self._request.hints

    @property
    def cache_salt(self) -> str | None:
        return self._request.cache_salt

    @property
    def adapter(self) -> str | None:
        return self._request.adapter

    @property
    def cache_keys(self) -> Sequence[CacheKey]:
        """Inputs beyond tokens that its blocks are identified by."""
        return self._request.cache_keys

    @property
    def num_preemptions(self) -> int:
        return self._request.num_preemptions

    @property
    def num_cached_tokens(self) -> int | None:
        """Tokens hit in the prefix cache at first admission; None before it."""
        return self._request.num_cached_tokens

    @property
    def num_recomputed_tokens(self) -> int:
        """Tokens computed more than once, because of preemption."""
        return self._request.num_recomputed_tokens

    @property
    def waiting_reason(self) -> str:
        """Why it waits: the gate and its reason, or the key it is parked on."""
        return self._request.waiting_reason

    @property
    def state(self) -> list[Any]:
        """One slot a component: yours is ``state[ctx.slot]``, None at first."""
        return self._request.state
