"""What a component may know about the step that is being planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from batchwright.request_view import RequestView

if TYPE_CHECKING:
    from batchwright.request import Request
    from batchwright.scheduler.state import State


class Running:
    """Running requests in order of admission; no copy is made."""

    __slots__ = ("_requests",)

    def __init__(self, requests: dict[str, Request]) -> None:
        self._requests = requests

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RequestView]:
        return (request.view for request in self._requests.values())

    def __reversed__(self) -> Iterator[RequestView]:
        return (request.view for request in reversed(self._requests.values()))

    def __contains__(self, request: object) -> bool:
        if not isinstance(request, RequestView):
            return False
        mine = self._requests.get(request.request_id)
        return mine is not None and mine.view is request


class StepView:
    """A live, read-only look at the scheduler; always as of now."""

    __slots__ = ("_state", "running")

    def __init__(self, state: State) -> None:
        self._state = state
        self.running = Running(state.running)

    @property
    def step_id(self) -> int:
        """The step that is being planned, or will be next."""
        return self._state.step_id

    @property
    def now(self) -> float:
        """Seconds on the scheduler's clock, as of the beginning of the step."""
        return self._state.now

    @property
    def num_running(self) -> int:
        """Running requests; those admitted earlier in this step included."""
        return len(self._state.running)

    @property
    def num_waiting(self) -> int:
        """Waiting requests, parked and skipped ones included."""
        return len(self._state.room)

    @property
    def num_parked(self) -> int:
        """Waiting requests that no scan touches before their key is notified."""
        return self._state.room.num_parked

    @property
    def num_prompt_tokens_waiting(self) -> int:
        """Prompt tokens of waiting requests that have never run."""
        return self._state.room.num_prompt_tokens

    @property
    def num_free_blocks(self) -> int:
        """Blocks that could be allocated now."""
        return self._state.kv.num_free_blocks

    @property
    def num_usable_blocks(self) -> int:
        """Blocks that requests can hold in all."""
        return self._state.kv.num_usable_blocks

    @property
    def num_tokens_left(self) -> int:
        """Tokens of this step's budget that are not granted yet."""
        return self._state.draft.num_tokens_left

    @property
    def num_scheduled_tokens(self) -> int:
        """Tokens granted so far in this step."""
        return self._state.draft.num_scheduled_tokens

    @property
    def num_admitted(self) -> int:
        """Requests admitted so far in this step."""
        return self._state.draft.num_admitted

    @property
    def num_in_flight(self) -> int:
        """Plans that are not updated yet."""
        return len(self._state.fence.flights)

    @property
    def next_alarm(self) -> float | None:
        """Seconds on the clock at which a component wants to be called, or None."""
        return self._state.alarms.next_time

    @property
    def is_paused(self) -> bool:
        """Whether admission is paused by whoever drives the scheduler."""
        return self._state.admission_paused

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        request = self._state.requests.get(request_id)
        return request.view if request is not None else None

    def block_ids(self, request: RequestView) -> list[int]:
        """A copy of a request's block table."""
        return self._state.kv.block_ids(request)

    def audit(self) -> Iterator[str]:
        """Say what is wrong in the books of the KV manager; O(blocks), for checks."""
        return self._state.kv.audit(self._state.fence.held())
