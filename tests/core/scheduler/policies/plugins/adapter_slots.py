"""A cap on the adapters that are loaded at a time."""

from __future__ import annotations

from collections import Counter

from attrs import frozen
from batchwright.plugin import RequestView, hookimpl

from batchwright.option import option
from batchwright.protocols import Resource


@frozen
class Options:
    """Options of the resource."""

    slots: int = option(2, "Adapters loaded at a time.", unit="adapters", ge=1)


class AdapterSlots(Resource):
    """Slots for adapters; requests of one adapter share its slot.

    Requests without a slot are deferred until their adapter is called, each adapter by a
    key of its own: a slot that becomes free brings back the requests of one adapter, not
    all that wait. Base requests, and those of loaded adapters, pass them.
    """

    name = "adapter-slots"
    Options = Options

    def setup(self) -> None:
        self._users: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, None]] = {}  # request ids by adapter, first come first

    def reserve(self, request: RequestView) -> bool:
        name = request.adapter
        if name is None:
            return True
        if name not in self._users and len(self._users) >= self.options.slots:
            return False
        self._users[name] += 1
        self._no_longer_waits(request)
        return True

    def waits_for(self, request: RequestView) -> str:
        self._waiting.setdefault(str(request.adapter), {})[request.request_id] = None
        return f"adapter {request.adapter}"

    def unreserve(self, request: RequestView) -> None:
        if request.adapter is not None:
            self._users[request.adapter] -= 1
            self._users += Counter()  # drops what nobody uses
            self._call()

    def on_finish(self, request: RequestView) -> None:
        self._no_longer_waits(request)
        self._call()

    def _no_longer_waits(self, request: RequestView) -> None:
        ids = self._waiting.get(str(request.adapter), {})
        ids.pop(request.request_id, None)
        if not ids:
            self._waiting.pop(str(request.adapter), None)

    def _call(self) -> None:
        """Bring back the adapters that are next, as many as there are free slots."""
        num_free = self.options.slots - len(self._users)
        for name in list(self._waiting)[:num_free]:
            self.ctx.signal(f"adapter {name}")


@hookimpl
def batchwright_register_resource() -> list[type[Resource]]:
    """Offer the resource."""
    return [AdapterSlots]
