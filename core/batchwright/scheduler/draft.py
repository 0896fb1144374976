"""The plan of a step while it is being made: everything in it can be taken back."""

from __future__ import annotations

from batchwright.protocols import Caps
from batchwright.request import Request


class Draft:
    """What has been decided so far in this step.

    (Written out, since one is made at every step: an attrs class with as many factories
    costs half as much again.)

    Args:
        budget: Tokens that may be granted.
        num_admissions: Requests that may be admitted.

    Attributes:
        num_tokens_left: Of the budget, tokens that are not granted yet.
        num_prefill_tokens_left: Of those, tokens that may go to debts over one.
        num_decode_tokens_left: Of those, tokens that may go to running requests that owe one.
        num_admissions_left: Requests that may still be admitted.
        num_draft_tokens: Draft tokens that a request may verify.
        tokens: Granted tokens by request id, in scheduling order.
        debts: What requests owed whose grant was decided by a visit.
        admitted: Those among them that came in with this step.
        tables: Blocks to send: new ones, or for an admitted request its whole table.
        draft_tokens: Draft tokens to verify.
        unfinished: Running requests, admitted ones included, that still owe something behind
            this step: prompts that are computed in pieces.
        yielded: Requests that the policy let yield in this step.
        preempted_ids: In order of preemption.
        preempted_for: By preempted request, the one that needed its blocks.
        passed_over: Waiting requests that were passed over, and why.
        num_batched: Requests of the decode batch, which got their token without a visit.
        shortage: Whether a running request got no blocks.
        lacks_resource: Whether a waiting request lacks a resource and names no key for it.
        stopped_by: The request that the waiting scan ended at, if one in particular, and why.
    """

    __slots__ = (
        "admitted",
        "budget",
        "debts",
        "draft_tokens",
        "lacks_resource",
        "num_admissions_left",
        "num_batched",
        "num_decode_tokens_left",
        "num_draft_tokens",
        "num_prefill_tokens_left",
        "num_tokens_left",
        "passed_over",
        "preempted_for",
        "preempted_ids",
        "shortage",
        "stopped_by",
        "tables",
        "tokens",
        "unfinished",
        "yielded",
    )

    def __init__(self, budget: int = 0, num_admissions: int = 0) -> None:
        self.budget = budget
        self.num_tokens_left = budget
        self.num_prefill_tokens_left = budget
        self.num_decode_tokens_left = budget
        self.num_draft_tokens = budget
        self.num_admissions_left = num_admissions
        self.tokens: dict[str, int] = {}
        self.debts: dict[str, int] = {}
        self.admitted: dict[str, Request] = {}
        self.tables: dict[str, list[int]] = {}
        self.draft_tokens: dict[str, list[int]] = {}
        self.unfinished: dict[str, Request] = {}
        self.yielded: dict[str, Request] = {}
        self.preempted_ids: list[str] = []
        self.preempted_for: dict[str, str] = {}
        self.passed_over: dict[str, str] = {}
        self.num_batched = 0
        self.shortage = False
        self.lacks_resource = False
        self.stopped_by: tuple[str | None, str] = (None, "")

    @property
    def num_scheduled_tokens(self) -> int:
        return self.budget - self.num_tokens_left

    @property
    def num_admitted(self) -> int:
        return len(self.admitted)

    def cut(self, caps: Caps) -> None:
        """Lower what may be granted, at the beginning of a step."""
        if caps.num_tokens is not None:
            self.budget = self.num_tokens_left = min(self.budget, caps.num_tokens)
        for name, cap in (
            ("num_prefill_tokens_left", caps.num_prefill_tokens),
            ("num_decode_tokens_left", caps.num_decode_tokens),
            ("num_admissions_left", caps.num_admissions),
            ("num_draft_tokens", caps.num_draft_tokens),
        ):
            if cap is not None:
                setattr(self, name, min(getattr(self, name), cap))

    def allowance(self, num_new_tokens: int) -> int:
        """What a debt may get of the budget that is left."""
        if num_new_tokens > 1:
            return min(num_new_tokens, self.num_tokens_left, self.num_prefill_tokens_left)
        return min(num_new_tokens, self.num_tokens_left)

    def running_allowance(self, num_new_tokens: int) -> int:
        """What the debt of a running request may get of the budget that is left."""
        if num_new_tokens > 1:
            return self.allowance(num_new_tokens)
        return min(self.allowance(num_new_tokens), self.num_decode_tokens_left)

    def lift_decode_cap(self) -> bool:
        """Let running requests that owe one token have it after all.

        Returns:
            Whether that changes anything.
        """
        was_capped = self.num_decode_tokens_left < self.num_tokens_left
        self.num_decode_tokens_left = self.num_tokens_left
        return was_capped

    def grant_batch(self, tokens: dict[str, int]) -> None:
        """Grant one token to each request of the decode batch.

        Args:
            tokens: One by id, in order of admission; the draft keeps it.
        """
        self.tokens = tokens
        self.num_batched = len(tokens)
        self.num_tokens_left -= len(tokens)
        self.num_decode_tokens_left -= len(tokens)

    def grant(self, request: Request, num_tokens: int, num_new_tokens: int) -> None:
        """Grant tokens to a request that was visited."""
        request_id = request.request_id
        self.tokens[request_id] = num_tokens
        self.debts[request_id] = num_new_tokens
        if num_tokens < num_new_tokens:
            self.unfinished[request_id] = request
        self.num_tokens_left -= num_tokens
        if num_new_tokens > 1:
            self.num_prefill_tokens_left -= num_tokens
        else:
            self.num_decode_tokens_left -= num_tokens

    def admit(self, request: Request, table: list[int]) -> None:
        """Note that a granted request came in with this step, with its whole table."""
        self.admitted[request.request_id] = request
        self.tables[request.request_id] = table
        self.num_admissions_left -= 1

    def return_tokens(self, request_id: str) -> int:
        """Return what a request was granted to the budget.

        Returns:
            Those tokens; to be taken again if it keeps its grant.
        """
        num_tokens = self.tokens.get(request_id, 0)
        self.take_tokens(request_id, -num_tokens)
        return num_tokens

    def take_tokens(self, request_id: str, num_tokens: int) -> None:
        """Take tokens for a request from the budget."""
        self.num_tokens_left -= num_tokens
        if self.debts.get(request_id, 1) > 1:
            self.num_prefill_tokens_left -= num_tokens
        else:
            self.num_decode_tokens_left -= num_tokens

    def take_out(self, request: Request) -> int:
        """Take a request out again; what it was given goes back to the budget.

        Returns:
            The tokens that it had been granted.
        """
        request_id = request.request_id
        if self.unfinished:
            self.unfinished.pop(request_id, None)
        if request_id not in self.tokens:
            return 0
        num_tokens = self.return_tokens(request_id)
        del self.tokens[request_id]
        if self.debts.pop(request_id, None) is None:
            self.num_batched -= num_tokens
        if self.admitted.pop(request_id, None) is not None:
            self.num_admissions_left += 1
        self.tables.pop(request_id, None)
        self.draft_tokens.pop(request_id, None)
        return num_tokens
