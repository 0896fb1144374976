"""The step that is being planned: everything in it can be taken back."""

from __future__ import annotations

from typing import Final, NamedTuple

from batchwright.protocols import Caps
from batchwright.request import Request


class Bypass(NamedTuple):
    """Choices of plugins that a step does without.

    Args:
        limits: Limits and controls.
        gates: Gates.
    """

    limits: bool
    gates: bool


NO_BYPASS: Final = Bypass(limits=False, gates=False)


class StepInProgress:
    """Decisions made so far in this step, and what holds for this step only.

    (Written out, since one is made at every step: an attrs class with as many factories
    costs half as much again.)

    Args:
        budget: Tokens that may be scheduled.
        num_admissions: Requests that may be admitted.
        now: Seconds on the scheduler's clock at which the step began.
        bypass: Choices of plugins that the step does without.

    Attributes:
        num_tokens_left: Of the budget, tokens that are not scheduled yet.
        num_prefill_tokens_left: Of those, tokens for requests with several new tokens.
        num_decode_tokens_left: Of those, tokens for running requests with one new token.
        num_admissions_left: Requests that may still be admitted.
        num_draft_tokens: Draft tokens that a request may verify.
        tokens: Scheduled tokens by request id, in scheduling order.
        num_new_tokens: New tokens of requests that were visited, scheduled or not.
        admitted: Those among them that came in with this step.
        tables: Blocks to send: new ones, or for an admitted request its whole table.
        draft_tokens: Draft tokens to verify.
        unfinished: Running requests, admitted ones included, that have new tokens left behind
            this step: prompts that are computed in pieces.
        yielded: Requests that the policy let yield in this step.
        preempted_ids: In order of preemption.
        preempted_for: By preempted request, the one that needed its blocks.
        passed_over: Waiting requests that were passed over, and why.
        without_room: Those of them that lack blocks, or a resource.
        seat_from: The running request that gives its seat to the head of the queue.
        num_batched: Requests of the decode batch, which got their token without a visit.
        shortage: Whether a running request got no blocks.
        lacks_resource: Whether a waiting request lacks a resource and names no key for it.
        stopped_by: The request that the waiting scan ended at, if one in particular, and why.
    """

    def __init__(
        self, budget: int = 0, num_admissions: int = 0, now: float = 0.0, bypass: Bypass = NO_BYPASS
    ) -> None:
        self.now = now
        self.bypass = bypass
        self.budget = budget
        self.num_tokens_left = budget
        self.num_prefill_tokens_left = budget
        self.num_decode_tokens_left = budget
        self.num_draft_tokens = budget
        self.num_admissions_left = num_admissions
        self.tokens: dict[str, int] = {}
        self.num_new_tokens: dict[str, int] = {}
        self.admitted: dict[str, Request] = {}
        self.tables: dict[str, list[int]] = {}
        self.draft_tokens: dict[str, list[int]] = {}
        self.unfinished: dict[str, Request] = {}
        self.yielded: dict[str, Request] = {}
        self.preempted_ids: list[str] = []
        self.preempted_for: dict[str, str] = {}
        self.passed_over: dict[str, str] = {}
        self.without_room: list[Request] = []
        self.seat_from: Request | None = None
        self.num_batched = 0
        self.shortage = False
        self.lacks_resource = False
        self.stopped_by: tuple[str | None, str] = (None, "")

    @property
    def num_scheduled_tokens(self) -> int:
        return self.budget - self.num_tokens_left

    def cut(self, caps: Caps) -> None:
        """Lower what may be scheduled, at the beginning of a step."""
        self.budget = self.num_tokens_left = _capped(self.budget, caps.num_tokens)
        prefill, decode = self.num_prefill_tokens_left, self.num_decode_tokens_left
        self.num_prefill_tokens_left = _capped(prefill, caps.num_prefill_tokens)
        self.num_decode_tokens_left = _capped(decode, caps.num_decode_tokens)
        self.num_admissions_left = _capped(self.num_admissions_left, caps.num_admissions)
        self.num_draft_tokens = _capped(self.num_draft_tokens, caps.num_draft_tokens)

    def allowance(self, num_new_tokens: int) -> int:
        """Return how many of a request's new tokens fit into the budget that is left."""
        if num_new_tokens > 1:
            return min(num_new_tokens, self.num_tokens_left, self.num_prefill_tokens_left)
        return min(num_new_tokens, self.num_tokens_left)

    def running_allowance(self, num_new_tokens: int) -> int:
        """Return the same for a running request."""
        if num_new_tokens > 1:
            return self.allowance(num_new_tokens)
        return min(self.allowance(num_new_tokens), self.num_decode_tokens_left)

    def lift_decode_cap(self) -> bool:
        """Let running requests with one new token have it after all.

        Returns:
            Whether that changes anything.
        """
        was_capped = self.num_decode_tokens_left < self.num_tokens_left
        self.num_decode_tokens_left = self.num_tokens_left
        return was_capped

    def schedule_batch(self, tokens: dict[str, int]) -> None:
        """Schedule one token for each request of the decode batch.

        Args:
            tokens: One by id, in order of admission; the step keeps it.
        """
        self.tokens = tokens
        self.num_batched = len(tokens)
        self.num_tokens_left -= len(tokens)
        self.num_decode_tokens_left -= len(tokens)

    def schedule(self, request: Request, num_tokens: int, num_new_tokens: int) -> None:
        """Schedule tokens of a request that was visited."""
        request_id = request.request_id
        self.tokens[request_id] = num_tokens
        self.num_new_tokens[request_id] = num_new_tokens
        if num_tokens < num_new_tokens:
            self.unfinished[request_id] = request
        self.num_tokens_left -= num_tokens
        if num_new_tokens > 1:
            self.num_prefill_tokens_left -= num_tokens
        else:
            self.num_decode_tokens_left -= num_tokens

    def add_blocks(self, request: Request, block_ids: list[int]) -> None:
        """Note new blocks of a running request."""
        self.tables[request.request_id] = block_ids
        if request.usage is not None:
            request.usage.change_num_blocks(len(block_ids))

    def admit(self, request: Request, table: list[int]) -> None:
        """Note that a scheduled request came in with this step, with its whole table."""
        self.admitted[request.request_id] = request
        self.tables[request.request_id] = table
        self.num_admissions_left -= 1

    def return_tokens(self, request_id: str) -> int:
        """Return the scheduled tokens of a request to the budget.

        Returns:
            Those tokens; to be taken again if it keeps them.
        """
        num_tokens = self.tokens.get(request_id, 0)
        self.take_tokens(request_id, -num_tokens)
        return num_tokens

    def take_tokens(self, request_id: str, num_tokens: int) -> None:
        """Take tokens for a request from the budget."""
        self.num_tokens_left -= num_tokens
        if self.num_new_tokens.get(request_id, 1) > 1:
            self.num_prefill_tokens_left -= num_tokens
        else:
            self.num_decode_tokens_left -= num_tokens

    def take_out(self, request: Request) -> int:
        """Take a request out again; its tokens go back to the budget.

        Returns:
            The tokens that had been scheduled.
        """
        request_id = request.request_id
        if self.unfinished:
            self.unfinished.pop(request_id, None)
        if request_id not in self.tokens:
            return 0
        num_tokens = self.return_tokens(request_id)
        del self.tokens[request_id]
        if self.num_new_tokens.pop(request_id, None) is None:
            self.num_batched -= num_tokens
        if self.admitted.pop(request_id, None) is not None:
            self.num_admissions_left += 1
        self.tables.pop(request_id, None)
        self.draft_tokens.pop(request_id, None)
        return num_tokens


def _capped(count: int, cap: int | None) -> int:
    return count if cap is None else min(count, cap)
