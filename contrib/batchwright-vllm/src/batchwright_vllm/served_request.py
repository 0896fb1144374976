"""A request of vLLM with the facts that components read."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from batchwright.request import CacheKey, Finish, RequestStatus
from batchwright.request_view import RequestView
from batchwright.sampling_params import SamplingParams

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from batchwright.usage import Usage

__all__ = ["KEYS", "VllmRequest"]

KEYS: Final = ("client", "group", "slo_class", "deadline")
"""Keys of ``extra_args`` (of an OpenAI client: ``vllm_xargs``) that are fields of a request."""

_STATUS: Final = {
    "RUNNING": RequestStatus.RUNNING,
    "PREEMPTED": RequestStatus.PREEMPTED,
    "FINISHED_STOPPED": RequestStatus.FINISHED_STOPPED,
    "FINISHED_REPETITION": RequestStatus.FINISHED_STOPPED,
    "FINISHED_LENGTH_CAPPED": RequestStatus.FINISHED_LENGTH,
    "FINISHED_IGNORED": RequestStatus.FINISHED_LENGTH,
    "FINISHED_ABORTED": RequestStatus.FINISHED_ABORTED,
    "FINISHED_ERROR": RequestStatus.FINISHED_ERROR,
}


class VllmRequest:
    """The facts about one request of vLLM; its view reads them.

    ``client``, ``group``, ``slo_class`` and ``deadline`` come from ``extra_args``; its other
    keys are ``hints``. ``deadline`` is given in seconds after the arrival.

    Args:
        request: vLLM's.
        num_slots: Components that may keep data with it.
        arrival_time: Seconds on the scheduler's clock.
    """

    def __init__(self, request: Request, num_slots: int, arrival_time: float) -> None:
        given = _extra_args(request)
        self.request = request
        self.request_id = request.request_id
        self.arrival_time = arrival_time
        self.client = _text(given, "client")
        self.group = _text(given, "group")
        self.slo_class = _text(given, "slo_class")
        deadline = given.get("deadline")
        self.deadline = None if deadline is None else arrival_time + float(deadline)
        self.hints: Mapping[str, Any] = {k: v for k, v in given.items() if k not in KEYS}
        self.priority = request.priority
        self.max_tokens = request.max_tokens
        self.cache_keys: Sequence[CacheKey] = ()
        self.features: Mapping[str, Any] = {}
        self.finish: Finish | None = None
        self.scheduled_time: float | None = None
        self.first_token_time: float | None = None
        self.finish_time: float | None = None
        self.num_policy_preemptions = 0
        self.num_recomputed_tokens = 0
        self.num_cached_tokens: int | None = None
        self.waiting_reason = ""
        self.is_aside = False
        self.is_admitted = False
        self.component_data: list[Any] = [None] * num_slots
        self.predicted_tokens: float | None = None
        self.usage: Usage | None = None
        self.high_water = 0
        self.num_blocks = 0
        self.running_order = 0
        self.timers: list[tuple[int, int, Any, Any]] = []
        self.view = RequestView.of(self)

    @property
    def status(self) -> RequestStatus:
        if self.is_aside:
            return RequestStatus.PARKED
        return _STATUS.get(self.request.status.name, RequestStatus.WAITING)

    @property
    def is_running(self) -> bool:
        return self.request.status.name == "RUNNING"

    @property
    def sampling_params(self) -> SamplingParams:
        """The sampling parameters that Batchwright knows; vLLM's others are left out."""
        params = self.request.sampling_params
        if params is None:
            return SamplingParams(max_tokens=self.max_tokens)
        return SamplingParams(
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=params.seed,
            ignore_eos=params.ignore_eos,
        )

    @property
    def token_ids(self) -> array[int]:
        return array("I", self.request.all_token_ids)

    @property
    def prompt_token_ids(self) -> Sequence[int]:
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def output_token_ids(self) -> Sequence[int]:
        return array("I", self.request.output_token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        return self.request.num_prompt_tokens

    @property
    def num_output_tokens(self) -> int:
        return self.request.num_output_tokens

    @property
    def num_tokens(self) -> int:
        return self.request.num_tokens

    @property
    def num_computed_tokens(self) -> int:
        return self.request.num_computed_tokens

    @property
    def num_new_tokens(self) -> int:
        request = self.request
        placeholders = request.num_output_placeholders
        return request.num_tokens_with_spec + placeholders - request.num_computed_tokens

    @property
    def num_preemptions(self) -> int:
        return self.request.num_preemptions

    @property
    def cache_salt(self) -> str | None:
        return self.request.cache_salt

    @property
    def adapter(self) -> str | None:
        lora = self.request.lora_request
        return None if lora is None else str(lora.lora_name)


def _extra_args(request: Request) -> Mapping[str, Any]:
    params = request.sampling_params
    return (params.extra_args if params is not None else None) or {}


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return None if value is None else str(value)
