"""Calls of resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from attrs import define

from batchwright.callers.guard import ANYTHING, REASON_OR_NONE, YES_OR_NO, Expected, Guard
from batchwright.protocols import Resource
from batchwright.request_view import RequestView

_KEY_OR_NONE: Final = Expected(REASON_OR_NONE.check, "a key or None")


class Shortage(NamedTuple):
    """A resource that a request did not get.

    Args:
        key: The key that is released when it may get it, or None.
        reason: The same in words.
        has_released: Whether others were released again for it.
    """

    key: str | None
    reason: str
    has_released: bool


@define(eq=False, slots=False)
class Resources:
    """Asks resources; a request reserves all of them or none.

    A fault belongs to the request, but for one in ``unreserve``.
    """

    _resources: Sequence[Resource]
    _guard: Guard

    def __bool__(self) -> bool:
        return bool(self._resources)

    def never(self, request: RequestView) -> str | None:
        """Return the reason why a request could never be served, or None.

        Raises:
            RequestFault: A resource failed on it.
        """
        ask = self._guard.ask_about_request
        for resource in self._resources:
            reason = ask(resource, resource.never, REASON_OR_NONE, request)
            if reason is not None:
                return f"resource {resource.name!r}: {reason}"
        return None

    def reserve(self, request: RequestView) -> Shortage | None:
        """Reserve each resource for a request, or say which one is short: then none is taken.

        Raises:
            RequestFault: A resource failed on it; none is taken.
        """
        ask, num_reserved = self._guard.ask_about_request, 0
        try:
            for resource in self._resources:
                if not ask(resource, resource.reserve, YES_OR_NO, request):
                    key = ask(resource, resource.waits_for, _KEY_OR_NONE, request)
                    return Shortage(key, f"resource {resource.name!r} is short", num_reserved > 0)
                num_reserved += 1
        finally:
            if num_reserved < len(self._resources):
                self.unreserve(request, num_reserved)
        return None

    def unreserve(self, request: RequestView, count: int | None = None) -> None:
        """Take back the first ``count`` reservations of a request (all if None)."""
        for resource in self._resources[:count]:
            self._guard.ask(resource, resource.unreserve, ANYTHING, request)
