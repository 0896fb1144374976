"""Resources beside KV that a request needs while it runs."""

from __future__ import annotations

from abc import abstractmethod

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Resource(Component, Lifecycle):
    """A second resource, reserved in one transaction with the KV blocks.

    ``reserve`` and ``release`` come in pairs: a reservation ends when the request
    yields or ends, or at once if the admission that it belongs to fails.

    Faults: an exception ends the request with FINISHED_ERROR; a resource that raises
    in ``release`` is reported, and the request goes on.
    """

    def never(self, request: RequestView) -> str | None:
        """Why this request could never be served, or None. Called by add_request.

        Cost class: event.
        """
        return None

    @abstractmethod
    def reserve(self, request: RequestView) -> bool:
        """Take what the request needs to run; False, and nothing taken, if it is short.

        Called when it is admitted, each time.

        Cost class: candidate.
        """

    @abstractmethod
    def unreserve(self, request: RequestView) -> None:
        """Give back what ``reserve`` took. Called once for each success of it.

        Cost class: event.
        """

    def waits_for(self, request: RequestView) -> str | None:
        """The key that is released when ``reserve`` could succeed, or None.

        With a key the request leaves the scan until ``ctx.signal(key)`` and those
        behind it are looked at; with None it ends the scan like missing blocks.

        Cost class: candidate (only after ``reserve`` answered False).
        """
        return None
