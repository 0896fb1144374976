"""Parallel columns over the requests of the decode batch."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import attrgetter

from attrs import Factory, define

from batchwright.messages import CachedRequestData
from batchwright.request import Request

running_order = attrgetter("running_order")


@define(eq=False)
class Columns:
    """The part of a plan that tells of the batch, kept ready in order of admission.

    A plan lists the same requests step after step; only one number, the batch's count, has
    advanced. So plans are made from these columns, a list at a time, and not from the
    requests. Insertion and removal shift lists: O(n), but at the speed of memmove.

    Attributes:
        requests: The requests.
        ids: Request ids.
        token_ids: Each one's known tokens.
        bases: Computed tokens minus the batch's count.
        output_bases: Output tokens minus the batch's count, between steps.
        ones: One token for each by id: what a step schedules for them.
        stop_ids: Tokens that end any of them, and maybe some that ended others.
    """

    requests: list[Request] = Factory(list)
    ids: list[str] = Factory(list)
    token_ids: list[array[int]] = Factory(list)
    bases: list[int] = Factory(list)
    output_bases: list[int] = Factory(list)
    ones: dict[str, int] = Factory(dict)
    stop_ids: set[int] = Factory(set)
    _places: dict[str, int] = Factory(dict)
    _is_lent: bool = False

    def place(self, request: Request) -> int:
        """The index at which a request stands, or would stand."""
        return bisect_left(self.requests, request.running_order, key=running_order)

    def places(self) -> dict[str, int]:
        """Places by id."""
        if not self._places:
            self._places = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return self._places

    def insert(self, request: Request) -> None:
        """Take up a request that follows the batch's count."""
        self._change()
        at, request_id, base = self.place(request), request.request_id, request.computed.base
        self.requests.insert(at, request)
        self.ids.insert(at, request_id)
        self.token_ids.insert(at, request.token_ids)
        self.bases.insert(at, base)
        self.output_bases.insert(at, base + 1 - request.num_prompt_tokens)
        if at == len(self.ones):
            self.ones[request_id] = 1
        else:
            self.ones = dict.fromkeys(self.ids, 1)
        self.stop_ids |= request.stop_ids

    def remove(self, request: Request) -> None:
        """Take a request out again."""
        self._change()
        at = self.place(request)
        for column in (self.requests, self.ids, self.token_ids, self.bases, self.output_bases):
            del column[at]
        del self.ones[request.request_id]
        if not self.ids:
            self.stop_ids.clear()

    def lend_requests(self) -> list[Request]:
        """The requests as they are now: the list is left alone, a change makes a new one."""
        self._is_lent = True
        return self.requests

    def cached_data(self, count: int) -> CachedRequestData:
        """Columns of a plan, without new blocks: fresh lists, that others may be appended to.

        Args:
            count: The batch's count.
        """
        return CachedRequestData(
            self.ids.copy(),
            [],
            [None] * len(self.ids),
            [base + count for base in self.bases],
            [base + count for base in self.output_bases],
        )

    def _change(self) -> None:
        self._places = {}
        if self._is_lent:
            self.requests = self.requests.copy()
            self._is_lent = False
