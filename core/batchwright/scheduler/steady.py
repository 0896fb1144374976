"""Steady decode: requests that a step carries along without visiting them.

A request in steady decode owes one token at every step, and nobody will cut that:
it has no drafts, no limit asks about decodes. What a step does to it is always the
same, so it is done for all of them at once: their computed tokens follow one epoch,
and advancing the epoch grants each of them its token. A step visits only those with
an appointment: a block to take, a block that fills (and is published), a mark, a
length limit.

That is exact only in a step in which nobody can go short. ``can_carry`` says whether
that is so; if not, ``dissolve`` turns everybody back into an ordinary request, and
the running scan decides about each of them in turn. The plan is the same either way.
"""

from __future__ import annotations

from batchwright.calendar import STANDSTILL, Calendar, Epoch
from batchwright.request import Request


class SteadyDecodes:
    """The requests in steady decode.

    Args:
        block_size: Tokens a block.
        num_lookahead_tokens: Slots allocated beyond a grant.
        running: All running requests, in order of admission.
        enabled: Whether requests may enter at all.
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
        self._spare_blocks = -(-num_lookahead_tokens // block_size)
        self.epoch = Epoch()
        self.enabled = enabled
        self._running = running
        self._calendar = Calendar(self.epoch, block_size)
        self._others: dict[str, Request] = {}
        self.ending: dict[str, Request] = {}

    def __len__(self) -> int:
        return len(self._running) - len(self._others)

    def __contains__(self, request: Request) -> bool:
        return request.epoch is self.epoch

    @property
    def others(self) -> dict[str, Request]:
        """Running requests that are not in steady decode."""
        return self._others

    def start(self, request: Request) -> None:
        """Note a request that begins to run."""
        self._others[request.request_id] = request

    def join(self, request: Request) -> None:
        """Carry a running request along from the next step on."""
        del self._others[request.request_id]
        request.follow(self.epoch)
        self._calendar.enter(request)
        self._calendar.appoint(request, request.max_total_tokens - 1)
        if request.marks:
            self._calendar.appoint(request, request.marks[0][0])
        if request.account is not None:
            request.account.decoding(1)

    def leave(self, request: Request) -> None:
        """Turn a request back into an ordinary running one."""
        self._calendar.strike(request)
        request.follow(STANDSTILL)
        self._others[request.request_id] = request
        if request.account is not None:
            request.account.decoding(-1)

    def end(self, request: Request) -> None:
        """Note a request that runs no longer."""
        if request in self:
            self.leave(request)
        del self._others[request.request_id]

    def dissolve(self) -> None:
        """Turn all of them back into ordinary running requests. O(running)."""
        for request in self._running.values():
            if request.epoch is self.epoch:
                self.leave(request)

    def appoint_mark(self, request: Request, num_computed_tokens: int) -> None:
        """Have a steady request come due when it has computed so many tokens."""
        self._calendar.appoint(request, num_computed_tokens)

    def needing_block(self) -> dict[str, Request]:
        """Those whose next token, or lookahead behind it, may go into a new block.

        With lookahead a block is taken as soon as the last slot beyond the token is in
        it; where the pool is too small for that, when the token itself is.
        """
        lookahead = self._num_lookahead_tokens
        if not lookahead:
            return self._calendar.at_position(0)
        return self._calendar.at_position(0) | self._calendar.at_position(-lookahead)

    def can_carry(self, num_tokens: int, num_free_blocks: int, *, order_matters: bool) -> bool:
        """Whether no running request can go short in this step, but for the tail.

        Requests admitted after every steady one may get less than they owe: in order
        of admission, what they get is then the same as without leaving anybody out.

        Args:
            num_tokens: Tokens of the step's budget.
            num_free_blocks: Blocks in the free pool.
            order_matters: Whether running requests are served in another order.
        """
        left = num_tokens - len(self)
        blocks = num_free_blocks - len(self.needing_block())
        last = next(r.running_order for r in reversed(self._running.values()) if r in self)
        before = 0
        for request in self._others.values():
            debt = request.debt
            blocks -= min(debt, num_tokens) // self._block_size + 1 + self._spare_blocks
            if order_matters or request.running_order < last:
                before += debt
        return left >= before and blocks >= 0

    def visits(self) -> list[Request]:
        """Whom this step must look at, in order of admission."""
        due = dict(self._others)
        due.update(self.needing_block())
        due.update(self._calendar.at_position(-1))
        return sorted(due.values(), key=_running_order)

    def advance(self) -> list[Request]:
        """Grant each of them its token, and note those for which it is the last.

        Returns:
            Those that may have reached a mark with it.
        """
        self.epoch.value += 1
        self.ending = {}
        marked = []
        for request_id in self._calendar.due():
            request = self._running.get(request_id)
            if request is None or request not in self:
                continue
            if request.num_computed_tokens >= request.max_total_tokens - 1:
                self.ending[request_id] = request
            if request.marks:
                marked.append(request)
        return marked


def _running_order(request: Request) -> int:
    return request.running_order
