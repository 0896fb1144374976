"""Preemption: what becomes of the KV of a request that yields."""

from __future__ import annotations

from abc import abstractmethod

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Preemption(Component, Lifecycle):
    """Care for the KV of a request that is preempted.

    Faults: an exception, or another answer than 0, counts as 0 kept tokens; three in a row
    end the run with PluginError.
    """

    @abstractmethod
    def keep(self, request: RequestView, block_ids: list[int]) -> int:
        """Take care of a request's KV before its blocks are given up.

        Args:
            request: The request that yields; its count of computed tokens is still the old
                one.
            block_ids: Its block table.

        Returns:
            0: no token's KV is kept elsewhere (tokens), so all of them are computed again,
            but for what the prefix cache still holds. No other answer is accepted yet:
            there is no place to keep KV in.

        Cost class: event.
        """
