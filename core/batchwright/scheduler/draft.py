"""The plan of a step while it is being made: everything in it can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.request import Request


class Draft:
    """What has been decided so far in this step.

    Args:
        budget: Tokens that may be granted.
        num_prefill_tokens: Tokens that may be granted to debts over one.
        num_admissions: Requests that may be admitted.
        num_draft_tokens: Draft tokens that a request may verify.
    """

    __slots__ = (
        "admitted",
        "budget",
        "debts",
        "draft_tokens",
        "granted",
        "num_admissions_left",
        "num_carried",
        "num_draft_tokens",
        "num_prefill_tokens_left",
        "num_tokens_left",
        "passed_over",
        "preempted",
        "preempted_for",
        "shortage",
        "stopped_by",
        "tables",
        "tokens",
    )

    def __init__(
        self, budget: int, num_prefill_tokens: int, num_admissions: int, num_draft_tokens: int
    ) -> None:
        self.budget = budget
        self.num_tokens_left = budget
        self.num_prefill_tokens_left = num_prefill_tokens
        self.num_admissions_left = num_admissions
        self.num_draft_tokens = num_draft_tokens
        self.tokens: dict[str, int] = {}
        """Granted tokens by request id, in scheduling order."""
        self.granted: dict[str, Request] = {}
        """Requests whose grant was decided by a visit."""
        self.admitted: dict[str, Request] = {}
        self.tables: dict[str, list[int]] = {}
        """Blocks to send: new ones, or for an admitted request its whole table."""
        self.draft_tokens: dict[str, list[int]] = {}
        self.debts: dict[str, int] = {}
        self.preempted: list[Request] = []
        self.preempted_for: dict[str, str] = {}
        self.passed_over: dict[str, str] = {}
        self.num_carried = 0
        self.shortage = False
        self.stopped_by: tuple[str | None, str] = (None, "")

    @property
    def num_scheduled_tokens(self) -> int:
        return self.budget - self.num_tokens_left

    @property
    def num_admitted(self) -> int:
        return len(self.admitted)

    def allowance(self, debt: int) -> int:
        """What a debt may get of the budget that is left."""
        if debt > 1:
            return min(debt, self.num_tokens_left, self.num_prefill_tokens_left)
        return min(debt, self.num_tokens_left)

    def carry(self, running: dict[str, Request], num_steady: int) -> None:
        """Grant one token to every steady request, in order of admission.

        Places are reserved for the others too, so that the order of the plan is that
        of admission; ``close`` removes those that get nothing.
        """
        self.tokens = dict.fromkeys(running, 1)
        self.num_tokens_left -= num_steady
        self.num_carried = num_steady

    def reserve_place(self, request: Request) -> None:
        """Keep a running request's place in the plan until it is known what it gets."""
        self.tokens[request.request_id] = 0

    def grant(self, request: Request, num_tokens: int, debt: int) -> None:
        """Grant tokens to a request that was visited."""
        request_id = request.request_id
        self.tokens[request_id] = num_tokens
        self.granted[request_id] = request
        self.debts[request_id] = debt
        self.num_tokens_left -= num_tokens
        if debt > 1:
            self.num_prefill_tokens_left -= num_tokens

    def admit(self, request: Request, table: list[int]) -> None:
        """Note that a granted request came in with this step."""
        self.admitted[request.request_id] = request
        self.tables[request.request_id] = table
        self.num_admissions_left -= 1

    def take_out(self, request: Request) -> int:
        """Take a request out again; what it was given goes back to the budget.

        Returns:
            The tokens that it had been granted.
        """
        request_id = request.request_id
        num_tokens = self.tokens.pop(request_id, 0)
        self.num_tokens_left += num_tokens
        if self.granted.pop(request_id, None) is None:
            self.num_carried -= num_tokens
        elif self.debts.pop(request_id) > 1:
            self.num_prefill_tokens_left += num_tokens
        if self.admitted.pop(request_id, None) is not None:
            self.num_admissions_left += 1
        self.tables.pop(request_id, None)
        self.draft_tokens.pop(request_id, None)
        return num_tokens

    def close(self) -> None:
        """Drop the reserved places of those that got nothing."""
        if 0 in self.tokens.values():
            self.tokens = {key: count for key, count in self.tokens.items() if count}
