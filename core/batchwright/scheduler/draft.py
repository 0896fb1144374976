"""The plan of a step while it is being made: everything in it can be taken back."""

from __future__ import annotations

from attrs import Factory, define

from batchwright.protocols import Caps
from batchwright.request import Request


@define(eq=False)
class Draft:
    """What has been decided so far in this step.

    Args:
        budget: Tokens that may be granted.
        num_tokens_left: Of those, tokens that are not granted yet.
        num_prefill_tokens_left: Of those, tokens that may go to debts over one.
        num_admissions_left: Requests that may be admitted.
        num_draft_tokens: Draft tokens that a request may verify.
        tokens: Granted tokens by request id, in scheduling order.
        granted: Requests whose grant was decided by a visit.
        tables: Blocks to send: new ones, or for an admitted request its whole table.
        yielded: Requests that the policy let yield in this step.
        num_carried: Requests in steady decode, granted their token without a visit.
        shortage: Whether a running request got no blocks.
        stopped_by: Whom the waiting scan ended at, if anybody in particular, and why.
    """

    budget: int = 0
    num_tokens_left: int = 0
    num_prefill_tokens_left: int = 0
    num_admissions_left: int = 0
    num_draft_tokens: int = 0
    tokens: dict[str, int] = Factory(dict)
    granted: dict[str, Request] = Factory(dict)
    admitted: dict[str, Request] = Factory(dict)
    tables: dict[str, list[int]] = Factory(dict)
    draft_tokens: dict[str, list[int]] = Factory(dict)
    debts: dict[str, int] = Factory(dict)
    yielded: dict[str, Request] = Factory(dict)
    preempted: list[Request] = Factory(list)
    preempted_for: dict[str, str] = Factory(dict)
    passed_over: dict[str, str] = Factory(dict)
    num_carried: int = 0
    shortage: bool = False
    stopped_by: tuple[str | None, str] = (None, "")

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
            ("num_admissions_left", caps.num_admissions),
            ("num_draft_tokens", caps.num_draft_tokens),
        ):
            if cap is not None:
                setattr(self, name, min(getattr(self, name), cap))

    def allowance(self, debt: int) -> int:
        """What a debt may get of the budget that is left."""
        if debt > 1:
            return min(debt, self.num_tokens_left, self.num_prefill_tokens_left)
        return min(debt, self.num_tokens_left)

    def carry(self, tokens: dict[str, int]) -> None:
        """Grant one token to every steady request.

        Args:
            tokens: One by id, in order of admission; the draft keeps it.
        """
        self.tokens = tokens
        self.num_carried = len(tokens)
        self.num_tokens_left -= len(tokens)

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
        """Note that a granted request came in with this step, with its whole table."""
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
