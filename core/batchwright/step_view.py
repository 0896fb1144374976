"""A read-only view of the scheduler and of the step that is being planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from batchwright.read_only import Read
from batchwright.request_view import RequestView

if TYPE_CHECKING:
    from batchwright.request import Finish, Request
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

    __slots__ = ("_num_given_blocks", "_num_giving", "_running", "_state")

    running: Read[Running] = Read("_running")
    """Running requests in order of admission."""
    step_id: Read[int] = Read("_state.step_id")
    """The step that is being planned, or will be next."""
    now: Read[float] = Read("_state.step.now")
    """Seconds on the scheduler's clock, as of the beginning of the step."""
    num_parked: Read[int] = Read("_state.waiting.num_parked")
    """Waiting requests that no scan touches before their key is notified."""
    num_prompt_tokens_waiting: Read[int] = Read("_state.waiting.num_prompt_tokens")
    """Prompt tokens of waiting requests that have never run."""
    num_usable_blocks: Read[int] = Read("_state.kv.num_usable_blocks")
    """Blocks that requests can hold in all."""
    num_tokens_left: Read[int] = Read("_state.step.num_tokens_left")
    """Tokens of this step's budget that are left."""
    num_scheduled_tokens: Read[int] = Read("_state.step.num_scheduled_tokens")
    """Tokens scheduled so far in this step."""
    num_admitted: Read[int] = Read("_state.step.num_admitted")
    """Requests admitted so far in this step."""
    next_timer: Read[float | None] = Read("_state.clock_timers.next_time")
    """Seconds on the clock at which a component wants to be called, or None."""
    is_paused: Read[bool] = Read("_state.admission_paused")
    """True if the program that drives the scheduler has paused admission."""

    unreported_ends: Read[Mapping[str, Finish]] = Read("_state.ended")
    """Requests whose end the next ``update_from_output`` will report."""

    failed_ids: Read[Sequence[str]] = Read("_state.in_flight.failed_ids")
    """Requests that the last updated step could not compute."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._running = Running(state.running)
        self._num_giving = 0
        self._num_given_blocks = 0

    @property
    def num_free_blocks(self) -> int:
        """Blocks that could be allocated now."""
        return self._state.kv.num_free_blocks + self._num_given_blocks

    @property
    def num_owed_blocks(self) -> int:
        """Blocks that prompts in computation still lack when this step is done.

        Of running requests that compute their known tokens in pieces; O(such requests).
        """
        unfinished, num_needed = self._state.step.unfinished, self._state.kv.num_needed
        if not unfinished:
            return 0
        return sum(num_needed(request.view, request.num_tokens) for request in unfinished.values())

    @property
    def num_running(self) -> int:
        """Running requests; those admitted earlier in this step included."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Waiting requests, deferred ones and those that wait for a key included."""
        return len(self._state.waiting) + self._num_giving

    @property
    def num_in_flight(self) -> int:
        """Plans that are not updated yet."""
        return len(self._state.in_flight.steps)

    def next_waiting(self, count: int) -> list[RequestView]:
        """The first requests of the policy's queue, in order; O(count log n)."""
        return self._state.components.policy.queue.first(count)

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""
        request = self._state.requests.get(request_id)
        return request.view if request is not None else None

    def block_ids(self, request: RequestView) -> list[int]:
        """A copy of a request's block table."""
        return self._state.kv.block_ids(request)

    def num_own_blocks(self, request: RequestView) -> int:
        """Blocks that a request holds and no other one does."""
        return self._state.kv.num_own_blocks(request)

    def published_blocks(self) -> Iterator[int]:
        """Blocks that the prefix cache can find; O(blocks), for checks."""
        return iter(self._state.kv.published_blocks())

    def audit(self) -> Iterator[str]:
        """Say what is wrong in the books of the KV manager; O(blocks), for checks."""
        return self._state.kv.audit(self._state.in_flight.deferred_blocks())


@contextmanager
def supposing(view: StepView, giving: dict[str, Request], num_blocks: int) -> Iterator[None]:
    """Let a view show the scheduler as if some running requests waited.

    Args:
        view: The view.
        giving: Running requests that would be preempted for the one that is judged.
        num_blocks: Blocks that would be free besides those that are.
    """
    running = view._state.running
    staying = {name: request for name, request in running.items() if name not in giving}
    view._running, view._num_giving = Running(staying), len(running) - len(staying)
    view._num_given_blocks = num_blocks
    try:
        yield
    finally:
        view._running, view._num_giving = Running(running), 0
        view._num_given_blocks = 0
