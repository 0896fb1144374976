"""Parallel columns over the requests of the decode batch."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from batchwright.messages import CachedRequestData
from batchwright.request import Request


class Columns:
    """The part of a plan that tells of the batch, kept ready in order of admission.

    A plan lists the same requests step after step; only one number, the batch's count, has
    advanced. So plans are made from these columns, a list at a time, and not from the
    requests. Insertion and removal shift lists: O(n), but at the speed of memmove.

    Attributes:
        ids: Request ids.
        requests: The requests.
        token_ids: Each one's known tokens.
        bases: Computed tokens minus the batch's count.
        output_bases: Output tokens minus the batch's count, between steps.
        ones: One token for each by id: what a step schedules for them.
        stop_ids: Tokens that end any of them, and maybe some that ended others.
        version: Counts changes.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.requests: list[Request] = []
        self.token_ids: list[array[int]] = []
        self.bases: list[int] = []
        self.output_bases: list[int] = []
        self.ones: dict[str, int] = {}
        self.stop_ids: set[int] = set()
        self.version = 0
        self._orders: list[int] = []
        self._places: dict[str, int] = {}
        self._version_before = 0
        self._is_lent = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def last_order(self) -> int:
        """The running order of the last one."""
        return self._orders[-1]

    def place(self, request: Request) -> int:
        """The index at which a request stands, or would stand."""
        return bisect_left(self._orders, request.running_order)

    def places(self) -> dict[str, int]:
        """Places by id; empty if the batch has changed since the step before.

        A table of them pays only where it is used again.
        """
        if self._version_before != self.version:
            self._version_before = self.version
            self._places = {}
        elif not self._places:
            self._places = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return self._places

    def insert(self, request: Request) -> None:
        """Take up a request that follows the batch's count."""
        self._take_back()
        at = self.place(request)
        self._orders.insert(at, request.running_order)
        self.ids.insert(at, request.request_id)
        self.requests.insert(at, request)
        self.token_ids.insert(at, request.token_ids)
        base = request.computed.base
        self.bases.insert(at, base)
        self.output_bases.insert(at, base + 1 - request.num_prompt_tokens)
        if at == len(self.ones):
            self.ones[request.request_id] = 1
        else:
            self.ones = dict.fromkeys(self.ids, 1)
        self.stop_ids |= request.stop_ids
        self.version += 1

    def remove(self, request: Request) -> None:
        """Take a request out again."""
        self._take_back()
        at = self.place(request)
        for column in (
            self._orders,
            self.ids,
            self.requests,
            self.token_ids,
            self.bases,
            self.output_bases,
        ):
            del column[at]
        del self.ones[request.request_id]
        self.version += 1
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

    def _take_back(self) -> None:
        if self._is_lent:
            self.requests = self.requests.copy()
            self._is_lent = False
