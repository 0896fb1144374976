"""Resources beside KV that a request needs while it runs."""

from __future__ import annotations

from abc import abstractmethod

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


class Resource(Component, Lifecycle):
    """A second resource, reserved in one transaction with the KV blocks.

    ``reserve`` and ``unreserve`` come in pairs: a reservation ends when the request is
    preempted or ends, or at once if its admission fails.

    Faults: an exception ends the request with FINISHED_ERROR; a resource that raises in
    ``unreserve`` is reported, and the request continues.
    """

    def never(self, request: RequestView) -> str | None:
        """Return the reason why this request could never be served, or None.

        Called by add_request.

        Cost class: event.
        """
        return None

    @abstractmethod
    def reserve(self, request: RequestView) -> bool:
        """Reserve the need of a request; return False, and reserve nothing, if there is too little.

        Called at each admission of the request.

        Cost class: candidate.
        """

    @abstractmethod
    def unreserve(self, request: RequestView) -> None:
        """Return the reservation of a request. Called once for each success of ``reserve``.

        Cost class: event.
        """

    def waits_for(self, request: RequestView) -> str | None:
        """Return the key that is signalled when ``reserve`` could succeed, or None.

        With a key the request leaves the scan until ``ctx.signal(key)``, and those behind it
        are looked at. With None it ends the scan, as missing blocks do.

        Cost class: candidate (only after ``reserve`` returned False).
        """
        return None
