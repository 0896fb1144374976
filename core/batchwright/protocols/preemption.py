"""Preemption: the treatment of the KV of a preempted request."""

from __future__ import annotations

from abc import abstractmethod

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Preemption(Component, Lifecycle):
    """Treatment of the KV of a preempted request.

    Faults: an exception, or another answer than 0, counts as 0 kept tokens; three in a row
    end the run with PluginError.
    """

    @abstractmethod
    def keep(self, request: RequestView, block_ids: list[int]) -> int:
        """Save a request's KV before its blocks are returned, if it can be saved.

        Args:
            request: The preempted request; its count of computed tokens is still the old one.
            block_ids: Its block table.

        Returns:
            Tokens whose KV is kept elsewhere: 0. All tokens are then computed again, except those
            that the prefix cache still holds. No other answer is accepted yet: there is no
            place to keep KV in.

        Cost class: event.
        """
