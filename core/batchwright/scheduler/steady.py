"""Steady decode: requests that a step carries along without visiting them.

A request in steady decode owes one token at every step, and nothing will cut that:
it has no drafts, no limit asks about decodes. What a step does to it is always the
same, so it is done for all of them at once: their computed tokens follow one epoch,
and advancing the epoch grants each of them its token. A step touches only those with
an appointment: a block to take, a block that fills (and is published), a mark, the
last token.

That is exact only in a step in which none of them can go short and none of them can
be served after another request. ``can_carry`` says whether that is so; if not,
``dissolve`` turns each of them back into an ordinary request, and the running scan
decides about each of them in turn. The plan is the same either way (under a policy that
orders running requests, but for the order in which it lists them and their new blocks).
"""

from __future__ import annotations

from array import array
from collections import deque
from operator import attrgetter

from batchwright.calendar import STANDSTILL, Calendar, Epoch
from batchwright.request import Request
from batchwright.scheduler.columns import Columns

_running_order = attrgetter("running_order")


class SteadyDecodes:
    """The requests in steady decode.

    Args:
        block_size: Tokens a block.
        num_lookahead_tokens: Slots allocated beyond a grant.
        running: All running requests, in order of admission.
        enabled: Whether requests may enter at all.

    Attributes:
        calendar: What will happen to them, and when.
        ending: Those for which the last step was the last.
    """

    def __init__(
        self,
        block_size: int,
        num_lookahead_tokens: int,
        running: dict[str, Request],
        *,
        enabled: bool,
    ) -> None:
        self._block_size = block_size
        self._num_lookahead_tokens = num_lookahead_tokens
        self.epoch = Epoch()
        self.enabled = enabled
        self.columns = Columns()
        self._running = running
        self.calendar = Calendar(self.epoch, block_size)
        self._others: dict[str, Request] = {}
        self.ending: list[Request] = []

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, request: Request) -> bool:
        return request.epoch is self.epoch

    @property
    def others(self) -> list[Request]:
        """Running requests that are not in steady decode, in order of admission."""
        return sorted(self._others.values(), key=_running_order)

    def start(self, request: Request) -> None:
        """Note a request that begins to run."""
        self._others[request.request_id] = request

    def join(self, request: Request) -> None:
        """Carry a running request along from the next step on."""
        del self._others[request.request_id]
        request.follow(self.epoch)
        self.columns.insert(request)
        self.calendar.enter(request)
        self.calendar.appoint(request, request.max_total_tokens - 1)
        if request.marks:
            self.calendar.appoint(request, request.marks[0][0])
        if request.account is not None:
            request.account.decoding(1)

    def leave(self, request: Request) -> None:
        """Turn a request back into an ordinary running one."""
        self._let_stand(request)
        self._others[request.request_id] = request

    def end(self, request: Request) -> None:
        """Note a request that runs no longer."""
        if request in self:
            self._let_stand(request)
        else:
            del self._others[request.request_id]

    def dissolve(self) -> None:
        """Turn all of them back into ordinary running requests."""
        for request in reversed(self.columns.requests.copy()):
            self.leave(request)

    def appoint_mark(self, request: Request, num_computed_tokens: int) -> None:
        """Have a steady request come due when it has computed so many tokens."""
        self.calendar.appoint(request, num_computed_tokens)

    def can_carry(self, num_tokens: int) -> bool:
        """Whether every steady request gets its token, before all others.

        Args:
            num_tokens: Tokens of the step's budget.
        """
        num_steady = len(self.columns.ids)
        if not num_steady or num_steady > num_tokens:
            return False
        if self._others:
            last = self.columns.last_order
            for request in self._others.values():
                if request.running_order < last:
                    return False
        return True

    def contend(self, num_tokens: int, num_blocks: int) -> bool:
        """Whether some running request may get less than it owes, so that order decides.

        Args:
            num_tokens: Tokens of the step's budget.
            num_blocks: Blocks that are free after those that steady requests take.
        """
        if not self._others:
            return False
        debts = [request.num_new_tokens for request in self._others.values()]
        # A grant reaches into at most one block more than it fills, before and after.
        slots = sum(debts) + len(debts) * self._num_lookahead_tokens
        most_blocks = slots // self._block_size + 2 * len(debts)
        return len(self.columns) + sum(debts) > num_tokens or most_blocks > num_blocks

    def growing(self) -> list[Request]:
        """Those whose next slot goes into a block that they may not have yet.

        With lookahead it is the last slot of it that counts; where the pool is too small
        for that, a block is taken for the token itself.
        """
        due = self.calendar.at_position(0)
        if self._num_lookahead_tokens:
            ahead = self.calendar.at_position(-self._num_lookahead_tokens)
            due = sorted(dict.fromkeys(due + ahead), key=_running_order)
        return due

    def filling(self) -> list[Request]:
        """Those whose next token fills a block, which is to be published."""
        return self.calendar.at_position(-1)

    def advance(self) -> list[Request]:
        """Grant each of them its token, and note those for which it is the last.

        Returns:
            Those that may have reached a mark with it.
        """
        self.epoch.value += 1
        self.ending = []
        marked = []
        for request_id in self.calendar.due():
            request = self._running.get(request_id)
            if request is None or request not in self:
                continue
            if request.num_computed_tokens >= request.max_total_tokens - 1:
                self.ending.append(request)
            if request.marks:
                marked.append(request)
        return marked

    def receive(self, tokens: list[int]) -> list[tuple[Request, int]]:
        """Append one new token to each of them.

        Args:
            tokens: Token ids in order of admission.

        Returns:
            Those that may have reached their end with it, in order of admission.

        Raises:
            TypeError: One of them is no token id; then no request has got any.
            OverflowError: Likewise.
        """
        columns = self.columns
        try:
            deque(map(array.append, columns.token_ids, tokens), 0)  # a loop in C
            stops = not columns.stop_ids.isdisjoint(tokens)
        except (TypeError, OverflowError):
            self._take_back()
            raise
        if not (stops or self.ending):
            return []
        ends = {columns.place(request) for request in self.ending if request in self}
        if stops:
            ends |= {at for at, token in enumerate(tokens) if token in columns.stop_ids}
        return [(columns.requests[at], tokens[at]) for at in sorted(ends)]

    def _let_stand(self, request: Request) -> None:
        """Carry a request along no more."""
        self.columns.remove(request)
        self.calendar.strike(request)
        request.follow(STANDSTILL)
        if request.account is not None:
            request.account.decoding(-1)

    def _take_back(self) -> None:
        """Remove new tokens from those that have got theirs already."""
        for request in self.columns.requests:
            if request.num_new_tokens:
                request.token_ids.pop()
