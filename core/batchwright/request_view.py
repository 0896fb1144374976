"""A read-only view of a request, for components."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from batchwright.sampling_params import SamplingParams

if TYPE_CHECKING:
    from batchwright.request import CacheKey, Finish, RequestStatus


class RequestFacts(Protocol):
    """The facts about a request; each one is an attribute of its view."""

    __slots__ = ()

    @property
    def request_id(self) -> str:
        """Unique among live requests."""

    @property
    def status(self) -> RequestStatus:
        """Waiting, running, or the way in which it ended."""

    @property
    def finish(self) -> Finish | None:
        """Its end; None while it lives."""

    @property
    def sampling_params(self) -> SamplingParams:
        """Sampling and stop conditions."""

    @property
    def max_tokens(self) -> int:
        """Most output tokens: max_tokens, or what max_model_len leaves."""

    @property
    def prompt_token_ids(self) -> Sequence[int]:
        """A copy of the prompt's token ids."""

    @property
    def output_token_ids(self) -> Sequence[int]:
        """A copy of the output token ids so far."""

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def num_output_tokens(self) -> int:
        """Output tokens so far."""

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and outputs so far."""

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose KV exists or is being computed."""

    @property
    def num_new_tokens(self) -> int:
        """Prompt + output + draft tokens + placeholders - computed (tokens)."""

    @property
    def priority(self) -> int:
        """Smaller is more urgent."""

    @property
    def arrival_time(self) -> float:
        """Seconds on ``ctx.clock``."""

    @property
    def scheduled_time(self) -> float | None:
        """Seconds on ``ctx.clock`` of the first scheduled tokens."""

    @property
    def first_token_time(self) -> float | None:
        """Seconds on ``ctx.clock``."""

    @property
    def finish_time(self) -> float | None:
        """Seconds on ``ctx.clock``."""

    @property
    def client(self) -> str | None:
        """The client (accounting, quotas)."""

    @property
    def group(self) -> str | None:
        """The program or conversation that it belongs to."""

    @property
    def slo_class(self) -> str | None:
        """Name of a service class with latency targets."""

    @property
    def deadline(self) -> float | None:
        """Seconds on ``ctx.clock``."""

    @property
    def hints(self) -> Mapping[str, Any]:
        """Values for policies."""

    @property
    def cache_salt(self) -> str | None:
        """Requests share prefix blocks only under the same salt."""

    @property
    def adapter(self) -> str | None:
        """Name and version of an adapter; part of the blocks' identity."""

    @property
    def cache_keys(self) -> Sequence[CacheKey]:
        """Inputs beyond tokens, for its blocks' identity."""

    @property
    def features(self) -> Mapping[str, Any]:
        """Values for features, by feature."""

    @property
    def num_preemptions(self) -> int:
        """Preemptions so far."""

    @property
    def num_policy_preemptions(self) -> int:
        """Preemptions by the policy.

        From ``ctx.sizes.max_policy_preemptions`` on it is immune.
        """

    @property
    def num_cached_tokens(self) -> int | None:
        """Tokens hit at first admission; None before it."""

    @property
    def num_recomputed_tokens(self) -> int:
        """Tokens computed again because of preemption."""

    @property
    def waiting_reason(self) -> str:
        """The gate and its reason, or the key, that it waits for."""


class ServedRequest(RequestFacts, Protocol):
    """A request of an engine; a view reads it."""

    @property
    def token_ids(self) -> array[int]:
        """Known tokens, 4 bytes each: the prompt, and outputs behind it."""

    @property
    def component_data(self) -> list[Any]:
        """Data of components, by ``ctx.slot``."""


class RequestView(RequestFacts):
    """A request as components see it. There is one view a request, so ``is`` works.

    It has every fact of ``RequestFacts`` as a read-only attribute. A component keeps what
    it wants to remember about a request in its own data: ``ctx.data(request)``.
    """

    __slots__ = ("_request",)

    _request: ServedRequest

    @classmethod
    def of(cls, request: ServedRequest) -> RequestView:
        """Make the view of a request; its engine makes one, once."""
        view = cls()
        object.__setattr__(view, "_request", request)
        return view

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


for _name in [name for name, fact in vars(RequestFacts).items() if isinstance(fact, property)]:
    # To read a fact costs what one property costs: it is looked up behind the view in C.
    setattr(RequestView, _name, property(attrgetter(f"_request.{_name}")))
