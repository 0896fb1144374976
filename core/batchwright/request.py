"""A request: its tokens, how far they are computed, and where it stands."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from attrs import define, field, frozen, setters

from batchwright.counters import FollowingCount
from batchwright.number_bounds import MAX_TOKEN_ID
from batchwright.request_view import RequestView
from batchwright.sampling_params import SamplingParams
from batchwright.usage import Usage

TOKEN_TYPECODE = "I"  # 4 bytes a token; a list of int objects costs 8 and up


class RequestStatus(IntEnum):
    """State of a request. Everything after PREEMPTED is an end."""

    WAITING = 0
    PARKED = 1
    RUNNING = 2
    PREEMPTED = 3
    FINISHED_STOPPED = 4
    FINISHED_LENGTH = 5
    FINISHED_ABORTED = 6
    FINISHED_ERROR = 7

    @property
    def is_finished(self) -> bool:
        return self > RequestStatus.PREEMPTED


_FINISH_REASONS = ("", "", "", "", "stop", "length", "abort", "error")
"""By status. (A dict would hash one, which is a call in Python.)"""


class Finish(NamedTuple):
    """The end of a request: its reason and detail.

    Args:
        status: One of the FINISHED states.
        detail: Exact cause of the end: ``eos``, ``stop_token:ID``, ``stop_string:TEXT``,
            ``max_tokens``, ``max_model_len``, ``kv_capacity``, or the reason of an
            error or a late rejection.
    """

    status: RequestStatus
    detail: str = ""

    @property
    def reason(self) -> str:
        """``stop``, ``length``, ``abort`` or ``error``."""
        return _FINISH_REASONS[self.status]


@frozen
class CacheKey:
    """An input beyond tokens (an image, an audio clip) at some prompt positions.

    Blocks that overlap ``[start, stop)`` are cached under ``identity`` too, since
    placeholder tokens of different images are equal.
    """

    start: int
    stop: int
    identity: bytes


def _compact(token_ids: Iterable[int]) -> array[int]:
    if isinstance(token_ids, str | bytes | bytearray):
        raise ValueError("token ids must be integers; encode text first")
    try:
        if type(token_ids) is not list:
            return array(TOKEN_TYPECODE, token_ids)
        compact = array(TOKEN_TYPECODE)
        compact.fromlist(token_ids)  # a third faster than the constructor
        return compact
    except (TypeError, OverflowError) as error:
        expected = f"integers from 0 to {MAX_TOKEN_ID}"
        raise ValueError(f"token ids must be {expected}: {error}") from None


def _eos_ids(value: int | Iterable[int] | None) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value or ())


@define(eq=False, kw_only=True, on_setattr=setters.NO_OP)
class Request:
    """One request, owned by the scheduler; components see it as a RequestView.

    Tokens are kept in one compact array, prompt first, outputs behind it.

    Args:
        request_id: Unique among live requests.
        prompt_token_ids: Token ids, each 0 <= id < 2**32 (else ValueError).
        sampling_params: Its sampling parameters.
        arrival_time: Seconds on the scheduler's clock; None means when it is added.
        priority: Smaller is more urgent.
        client: Whose it is (accounting, quotas).
        group: A program or conversation that it belongs to.
        slo_class: Name of a service class with latency targets.
        deadline: Seconds on the scheduler's clock.
        hints: Anything that a policy of yours understands.
        cache_salt: Requests share prefix blocks only under the same salt; an empty one is
            none.
        adapter: Name and version of an adapter; part of the blocks' identity; an empty
            one is none.
        eos_token_id: The model's end-of-sequence token (or several).
        cache_keys: Inputs beyond tokens, for the blocks' identity; within the prompt.
        features: By feature, what this request says to it.
    """

    request_id: str
    token_ids: array[int] = field(alias="prompt_token_ids", converter=_compact, repr=False)
    sampling_params: SamplingParams = field(factory=SamplingParams)
    arrival_time: float | None = None
    priority: int = 0
    client: str | None = None
    group: str | None = None
    slo_class: str | None = None
    deadline: float | None = None
    hints: Mapping[str, Any] = field(factory=dict)
    cache_salt: str | None = None
    adapter: str | None = None
    eos_token_id: tuple[int, ...] = field(default=(), converter=_eos_ids)
    cache_keys: tuple[CacheKey, ...] = ()
    features: Mapping[str, Any] = field(factory=dict)

    # What follows is kept by the scheduler.
    status: RequestStatus = field(init=False, default=RequestStatus.WAITING)
    finish: Finish | None = field(init=False, default=None)
    num_prompt_tokens: int = field(init=False)
    max_tokens: int = field(init=False, default=0)
    max_total_tokens: int = field(init=False, default=0)
    stop_ids: frozenset[int] = field(init=False, repr=False)
    draft_token_ids: list[int] = field(init=False, factory=list)
    num_output_placeholders: int = field(init=False, default=0)
    computed: FollowingCount = field(init=False, factory=FollowingCount, repr=False)
    on_executor: bool = field(init=False, default=False)
    high_water: int = field(init=False, default=0)
    num_preemptions: int = field(init=False, default=0)
    num_bypassed: int = field(init=False, default=0)
    preempted_at: int = field(init=False, default=0, repr=False)
    preempted_there: int = field(init=False, default=0, repr=False)
    predicted_tokens: float | None = field(init=False, default=None)
    num_policy_preemptions: int = field(init=False, default=0)
    num_cached_tokens: int | None = field(init=False, default=None)
    num_recomputed_tokens: int = field(init=False, default=0)
    scheduled_time: float | None = field(init=False, default=None)
    first_token_time: float | None = field(init=False, default=None)
    finish_time: float | None = field(init=False, default=None)
    waiting_reason: str = field(init=False, default="")
    running_order: int = field(init=False, default=0)
    timers: list[tuple[int, int, Any, Any]] = field(init=False, factory=list, repr=False)
    usage: Usage | None = field(init=False, default=None, repr=False)
    component_data: list[Any] = field(init=False, factory=list, repr=False)
    view: RequestView = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.num_prompt_tokens = len(self.token_ids)
        params = self.sampling_params
        self.stop_ids = frozenset((*self.eos_ids, *params.stop_token_ids))
        # Its arrival_time is set when it is added, before any component sees it.
        self.view = RequestView.of(self)  # type: ignore[arg-type]

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """End-of-sequence tokens that end it."""
        return () if self.sampling_params.ignore_eos else self.eos_token_id

    @property
    def prompt_token_ids(self) -> array[int]:
        """A copy of the prompt."""
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def output_token_ids(self) -> array[int]:
        """A copy of the outputs so far."""
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and outputs."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose KV exists or is being computed by a step in flight."""
        return self.computed.value

    @num_computed_tokens.setter
    def num_computed_tokens(self, count: int) -> None:
        self.computed.value = count

    @property
    def num_new_tokens(self) -> int:
        """Tokens to compute until it has caught up: the one quantity scheduled."""
        return (
            len(self.token_ids)
            + len(self.draft_token_ids)
            + self.num_output_placeholders
            - self.computed.value
        )

    @property
    def num_futile_preemptions(self) -> int:
        """Preemptions since its last output."""
        return self.preempted_there if self.preempted_at == len(self.token_ids) else 0

    def note_preemption(self) -> None:
        """Count a preemption."""
        self.num_preemptions += 1
        self.preempted_there = self.num_futile_preemptions + 1
        self.preempted_at = len(self.token_ids)

    def drop_view(self) -> None:
        """Drop the view of an ended request, so that its memory is freed at once.

        For drivers of very many requests: a request and its view hold one another, and would
        wait for the garbage collector with all their tokens.
        """
        del self.view
