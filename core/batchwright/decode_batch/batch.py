"""The decode batch: requests that a step advances without visiting them.

A request in the batch lacks one token at every step, and nothing will cut that: it has no
drafts, no limit asks about decodes. A step does the same to each of them, so it is done for
all at once: their computed tokens follow one count, and advancing that count schedules a
token for each. A step touches only the requests that need a block, that complete one (it is
published), or that reach a timer or their last token.

That is exact only in a step in which none of them can go short, and none is served after
another request. ``fits`` says so; if it does not fit, ``flush`` turns each of them back into
an ordinary request, and the running scan decides about each in turn. The plan is the same
either way (under a policy that orders running requests, but for the order in which it lists
them and their new blocks): the scan is the specification of what this does.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from batchwright.counters import STANDSTILL, SharedCount
from batchwright.decode_batch.columns import Columns
from batchwright.decode_batch.due_requests import BlockPhases, DueCounts

if TYPE_CHECKING:
    from batchwright.messages import CachedRequestData
    from batchwright.request import Request

_running_order = attrgetter("running_order")


class BatchStep:
    """One step of the decode batch, from its plan to its answer.

    (Written out, since one is made at every step.)

    Attributes:
        requests: The requests that it computes, in order of admission.
        data: The part of the plan that tells of them; other requests may be appended.
        watched: Requests that may have reached a timer with it.
        version: The batch's version when it was planned.
    """

    __slots__ = ("data", "requests", "version", "watched")

    def __init__(
        self, requests: list[Request], data: CachedRequestData, watched: list[Request], version: int
    ) -> None:
        self.requests = requests
        self.data = data
        self.watched = watched
        self.version = version


class DecodeBatch:
    """Running requests that decode one token a step, advanced together.

    Args:
        block_size: Tokens a block.
        num_lookahead_tokens: Slots allocated beyond the tokens of a step.
        running: All running requests, in order of admission.
        is_enabled: Whether requests may join at all.

    Attributes:
        count: Advances whenever each request of the batch computes a token.
    """

    def __init__(
        self,
        block_size: int,
        num_lookahead_tokens: int,
        running: dict[str, Request],
        *,
        is_enabled: bool,
    ) -> None:
        self.count = SharedCount()
        self.is_enabled = is_enabled
        self._num_lookahead_tokens = num_lookahead_tokens
        self._running = running
        self._columns = Columns()
        self._phases = BlockPhases(self.count, block_size)
        self._due = DueCounts()
        self._at_last_token: list[Request] = []

    def __len__(self) -> int:
        return len(self._columns.ids)

    def __contains__(self, request: Request) -> bool:
        return request.computed.shared is self.count

    def join(self, request: Request) -> None:
        """Take in a running request if all that it does from now on is decode."""
        if (
            self.is_enabled
            and request.computed.shared is not self.count
            and not request.draft_token_ids
            and request.num_new_tokens == 1
            and request.first_token_time is not None  # it may be the last of the prompt
        ):
            self._insert(request)

    def leave(self, request: Request) -> None:
        """Turn a request back into an ordinary one, if it is in the batch."""
        if request.computed.shared is self.count:
            self._columns.remove(request)
            self._phases.remove(request)
            request.computed.follow(STANDSTILL)
            if request.usage is not None:
                request.usage.change_num_batched(-1)

    def flush(self) -> None:
        """Turn all of them back into ordinary running requests."""
        for request in reversed(self._columns.requests.copy()):
            self.leave(request)

    def others(self) -> list[Request]:
        """Running requests that are not in the batch, in order of admission.

        Most of them have begun to run after it: O(them), not O(running), then.
        """
        count, found = self.count, []
        num_others = len(self._running) - len(self._columns.ids)
        if num_others:
            for request in reversed(self._running.values()):
                if request.computed.shared is not count:
                    found.append(request)
                    if len(found) == num_others:
                        break
            found.reverse()
        return found

    def fits(self, num_tokens: int, num_free_blocks: int, others: Sequence[Request]) -> bool:
        """Tell whether each of them gets its token and block, before all other requests.

        Args:
            num_tokens: Tokens left of the step's budget.
            num_free_blocks: Blocks that are free.
            others: Running requests that are not in the batch, in order of admission.
        """
        if not 0 < len(self._columns.ids) <= num_tokens:
            return False
        if others and others[0].running_order < self._columns.last_order:
            return False
        growing = self.needs_block()
        return not growing or len(growing) <= num_free_blocks

    def scheduled_tokens(self) -> dict[str, int]:
        """One token for each of them by id, in order of admission; a fresh dict."""
        return self._columns.ones.copy()

    def needs_block(self) -> list[Request]:
        """Those whose next slot goes into a block that they may not have yet.

        With lookahead it is the last slot of it that counts; where the pool is too small
        for that, a block is taken for the token itself.
        """
        due = self._phases.at(0)
        if self._num_lookahead_tokens:
            ahead = self._phases.at(-self._num_lookahead_tokens)
            due = sorted(dict.fromkeys(due + ahead), key=_running_order)
        return due

    def completes_block(self) -> list[Request]:
        """Those whose next token completes a block, which is to be published."""
        return self._phases.at(-1)

    def advance(self, new_blocks: dict[str, list[int]]) -> BatchStep:
        """Count a token for each of them as computed.

        Args:
            new_blocks: Blocks taken in this step by request id; other requests may be there.
        """
        columns = self._columns
        data = columns.cached_data(self.count.value)
        blocks, places = data.new_block_ids, columns.places()
        for request_id, block_ids in new_blocks.items():
            at = places.get(request_id) if places else self._place(request_id)
            if at is not None:
                blocks[at] = block_ids
        return BatchStep(columns.lend_requests(), data, self._advance(), columns.version)

    def receive(
        self, step: BatchStep, rows: Sequence[list[int]]
    ) -> list[tuple[Request, int]] | None:
        """Append the new token of each request of a step.

        Args:
            step: The step that was answered.
            rows: Sampled tokens, a row for each request of the step; more may follow.

        Returns:
            Requests that may have ended with it, and their tokens, in order of admission. None
            if nothing was appended: a request has left since, or a row is not one token id.
        """
        columns = self._columns
        if step.version != columns.version:
            return None
        try:
            tokens = [token for (token,) in islice(rows, len(columns.ids))]
            deque(map(array.append, columns.token_ids, tokens), 0)  # a loop in C
            stops = not columns.stop_ids.isdisjoint(tokens)
        except (TypeError, ValueError, OverflowError):
            self._take_back()
            return None
        if not (stops or self._at_last_token):
            return []
        ends = {columns.place(request) for request in self._at_last_token if request in self}
        if stops:
            ends |= {at for at, token in enumerate(tokens) if token in columns.stop_ids}
        return [(columns.requests[at], tokens[at]) for at in sorted(ends)]

    def watch(self, request: Request, num_computed_tokens: int) -> None:
        """Have a request of the batch among ``watched`` when it reaches a later count."""
        if request.computed.shared is self.count:
            self._due.add(num_computed_tokens - request.computed.base, request.request_id)

    def _insert(self, request: Request) -> None:
        request.computed.follow(self.count)
        self._columns.insert(request)
        self._phases.insert(request)
        self.watch(request, request.max_total_tokens - 1)
        if request.timers:
            self.watch(request, request.timers[0][0])
        if request.usage is not None:
            request.usage.change_num_batched(1)

    def _advance(self) -> list[Request]:
        """Advance the count, and note those for which it is the last token.

        Returns:
            Those that may have reached a timer.
        """
        self.count.value += 1
        self._at_last_token = []
        watched = []
        for request_id in self._due.take(self.count.value):
            request = self._running.get(request_id)
            if request is None or request not in self:
                continue
            if request.num_computed_tokens >= request.max_total_tokens - 1:
                self._at_last_token.append(request)
            if request.timers:
                watched.append(request)
        return watched

    def _place(self, request_id: str) -> int | None:
        """The place of a request, if it is in the batch."""
        request = self._running.get(request_id)
        return self._columns.place(request) if request is not None and request in self else None

    def _take_back(self) -> None:
        """Remove new tokens from those that have got theirs already."""
        for request in self._columns.requests:
            if request.num_new_tokens:
                request.token_ids.pop()
