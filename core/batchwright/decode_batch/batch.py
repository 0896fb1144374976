"""The decode batch: requests that a step advances without visiting them.

A request in the batch lacks one token at every step, and nothing will cut that: it has no
drafts, no limit asks about decodes. A step does the same to each of them, so it is done for
all at once: their computed tokens follow one count, and advancing that count schedules a
token for each. A step touches only the requests that need a block, that complete one (it is
published), or that reach a timer or their last token: since each computes one token a step,
it is known beforehand when that will be.

That is exact only in a step in which none of them can go short, and none is served after
another request. Otherwise ``schedule`` declines, and each of them leaves the batch, so that
the running scan decides about each in turn. The plan is the same either way (under a policy
that orders running requests, but for the order in which it lists them and their new blocks):
the scan is the specification of what this does.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define

from batchwright.counters import STANDSTILL, SharedCount
from batchwright.decode_batch.columns import Columns, running_order

if TYPE_CHECKING:
    from batchwright.messages import CachedRequestData
    from batchwright.request import Request


@define(eq=False)
class BatchTokens:
    """Tokens that a step schedules for the decode batch.

    Args:
        by_id: One for each request, in order of admission; a fresh dict.
        growing: Requests whose next slot goes into a block that they may not have yet. With
            lookahead it is the last slot of it that counts; where the pool is too small
            for that, a block is taken for the token itself.
        filling: Requests whose token completes a block, which is to be published.
    """

    by_id: dict[str, int]
    growing: Sequence[Request]
    filling: Sequence[Request]


@define(eq=False)
class BatchStep:
    """A step of the decode batch, once it is planned.

    Args:
        requests: The requests that it computes, in order of admission.
        data: The part of the plan that tells of them; other requests may be appended.
        watched: Requests that may have reached a timer with it.
    """

    requests: list[Request]
    data: CachedRequestData
    watched: list[Request]


class DecodeBatch:
    """Running requests that decode one token a step, advanced together.

    Args:
        block_size: Tokens a block.
        num_lookahead_tokens: Slots allocated beyond the tokens of a step.
        running: All running requests, in order of admission.
        is_enabled: Whether requests may join at all.

    Attributes:
        count: Advances whenever each request of the batch computes a token.
        phases: The requests by the count, modulo the block size, at which their blocks are
            full, each in order of admission: nothing moves when the count advances.
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
        self._block_size = block_size
        self._num_lookahead_tokens = num_lookahead_tokens
        self._running = running
        self._columns = Columns()
        self.phases: list[list[Request]] = [[] for _ in range(block_size)]
        # By count, ids of requests to look at: an id keeps no ended request alive.
        self._due: dict[int, list[str]] = {}
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
            request.computed.follow(self.count)
            self._columns.insert(request)
            insort(self._phase_of(request), request, key=running_order)
            self.watch(request, request.max_total_tokens - 1)
            if request.timers:
                self.watch(request, request.timers[0][0])
            if request.usage is not None:
                request.usage.change_num_batched(1)

    def leave(self, *requests: Request) -> None:
        """Turn requests back into ordinary ones, as far as they are in the batch."""
        for request in reversed(requests):
            if request in self:
                self._columns.remove(request)
                self._phase_of(request).remove(request)
                request.computed.follow(STANDSTILL)
                if request.usage is not None:
                    request.usage.change_num_batched(-1)

    def others(self) -> list[Request]:
        """Running requests that are not in the batch, in order of admission.

        Most of them have begun to run after it: O(them), not O(running), then.
        """
        num_others = len(self._running) - len(self._columns.ids)
        if not num_others:
            return []
        outside = (r for r in reversed(self._running.values()) if r not in self)
        return [*islice(outside, num_others)][::-1]

    def schedule(
        self, num_tokens: int, num_free_blocks: int, others: Sequence[Request]
    ) -> BatchTokens | None:
        """Schedule a token for each of them, before all other requests.

        Args:
            num_tokens: Tokens left of the step's budget.
            num_free_blocks: Blocks that are free.
            others: Running requests that are not in the batch, in order of admission.

        Returns:
            The tokens; None if one of them might go short, or another one comes before it.
        """
        requests = self._columns.requests
        if not 0 < len(requests) <= num_tokens:
            return None
        if others and others[0].running_order < requests[-1].running_order:
            return None
        growing = self._phase(0)
        if self._num_lookahead_tokens:
            ahead = self._phase(self._num_lookahead_tokens)
            growing = sorted(dict.fromkeys(growing + ahead), key=running_order)
        if len(growing) > num_free_blocks:
            return None
        return BatchTokens(self._columns.ones.copy(), growing, self._phase(1))

    def advance(self, new_blocks: Mapping[str, list[int]]) -> BatchStep:
        """Count a token for each of them as computed.

        Args:
            new_blocks: Blocks taken in this step by request id; other requests may be there.
        """
        columns = self._columns
        data = columns.cached_data(self.count.value)
        if new_blocks:
            places, column = columns.places(), data.new_block_ids
            for request_id, block_ids in new_blocks.items():
                if request_id in places:
                    column[places[request_id]] = block_ids
        return BatchStep(columns.lend_requests(), data, self.advance_by(1))

    def advance_by(self, num_steps: int) -> list[Request]:
        """Count a token of each of several steps as computed, without a plan.

        Args:
            num_steps: Steps; none but the last brings a request to a timer or its last token.

        Returns:
            Requests that may have reached a timer.
        """
        count, due = self.count, None
        for _ in range(num_steps):
            count.value = now = count.value + 1
            due = self._due.pop(now, None)
        self._at_last_token = []
        if due is None:
            return []
        running = self._running
        looked_at = [running[name] for name in due if name in running and running[name] in self]
        self._at_last_token = [
            r for r in looked_at if r.num_computed_tokens >= r.max_total_tokens - 1
        ]
        return [request for request in looked_at if request.timers]

    def receive(
        self, requests: list[Request], rows: Iterable[Sequence[int]]
    ) -> list[tuple[Request, int]] | None:
        """Append the new token of each request of a step.

        Args:
            requests: The requests of the step that was answered, as ``advance`` returned them.
            rows: Sampled tokens, a row for each of them; more may follow.

        Returns:
            Requests that may have ended with it, and their tokens, in order of admission. None
            if nothing was appended: the batch has changed since, or a row is not one token id.
        """
        columns = self._columns
        if requests is not columns.requests:
            return None
        try:
            tokens = [token for (token,) in islice(rows, len(requests))]
            deque(map(array.append, columns.token_ids, tokens), 0)  # a loop in C
            stops = not columns.stop_ids.isdisjoint(tokens)
        except (TypeError, ValueError, OverflowError):
            for request in requests:
                if request.num_new_tokens:  # it has got its token already
                    request.token_ids.pop()
            return None
        if not (stops or self._at_last_token):
            return []
        ends = {columns.place(request) for request in self._at_last_token if request in self}
        if stops:
            ends |= {at for at, token in enumerate(tokens) if token in columns.stop_ids}
        return [(requests[at], tokens[at]) for at in sorted(ends)]

    def watch(self, request: Request, num_computed_tokens: int) -> None:
        """Look at a request of the batch when it reaches a later count."""
        if request in self:
            due = num_computed_tokens - request.computed.base
            self._due.setdefault(due, []).append(request.request_id)

    def _phase(self, num_tokens: int) -> list[Request]:
        """Requests that have filled their blocks once so many more tokens are computed."""
        return self.phases[(self.count.value + num_tokens) % self._block_size]

    def _phase_of(self, request: Request) -> list[Request]:
        return self.phases[-request.computed.base % self._block_size]
