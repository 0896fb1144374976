"""A read-only view of the scheduler and of the step that is being planned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Reversible, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchwright.request import Finish
    from batchwright.request_view import RequestView


class Running(Collection["RequestView"], Reversible["RequestView"], Protocol):
    """Running requests in order of admission; no copy is made."""

    __slots__ = ()


class StepView(Protocol):
    """A live, read-only view of the scheduler.

    An engine that runs components implements it over objects of its own.
    """

    __slots__ = ()

    @property
    def running(self) -> Running:
        """Running requests in order of admission."""

    @property
    def step_id(self) -> int:
        """The step that is being planned, or will be next."""

    @property
    def now(self) -> float:
        """Seconds on the scheduler's clock, as of the beginning of the step."""

    @property
    def num_running(self) -> int:
        """Running requests; those admitted earlier in this step included."""

    @property
    def num_waiting(self) -> int:
        """Waiting requests, deferred ones and those that wait for a key included."""

    @property
    def num_parked(self) -> int:
        """Waiting requests that no scan touches before their key is notified."""

    @property
    def num_in_flight(self) -> int:
        """Plans that are not updated yet."""

    @property
    def num_prompt_tokens_waiting(self) -> int:
        """Prompt tokens of waiting requests that have never run."""

    @property
    def num_usable_blocks(self) -> int:
        """Blocks that requests can hold in all."""

    @property
    def num_free_blocks(self) -> int:
        """Blocks that could be allocated now."""

    @property
    def num_owed_blocks(self) -> int:
        """Blocks that prompts in computation still lack when this step is done.

        Of running requests that compute their known tokens in pieces; O(such requests).
        """

    @property
    def num_tokens_left(self) -> int:
        """Tokens of this step's budget that are left."""

    @property
    def num_scheduled_tokens(self) -> int:
        """Tokens scheduled so far in this step."""

    @property
    def num_admitted(self) -> int:
        """Requests admitted so far in this step."""

    @property
    def next_timer(self) -> float | None:
        """Seconds on the clock at which a component wants to be called, or None."""

    @property
    def is_paused(self) -> bool:
        """True if the program that drives the scheduler has paused admission."""

    @property
    def unreported_ends(self) -> Mapping[str, Finish]:
        """Requests whose end the next ``update_from_output`` will report."""

    @property
    def failed_ids(self) -> Sequence[str]:
        """Requests that the last updated step could not compute."""

    def next_waiting(self, count: int) -> list[RequestView]:
        """The first requests of the policy's queue, in order; O(count log n)."""

    def request(self, request_id: str) -> RequestView | None:
        """A live request, or None."""

    def block_ids(self, request: RequestView) -> list[int]:
        """A copy of a request's block table."""

    def num_own_blocks(self, request: RequestView) -> int:
        """Blocks that a request holds and no other one does."""

    def published_blocks(self) -> Iterator[int]:
        """Blocks that the prefix cache can find; O(blocks), for checks."""

    def audit(self) -> Iterator[str]:
        """Errors in the records of the KV manager; O(blocks), for checks."""
