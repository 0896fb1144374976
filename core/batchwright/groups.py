"""Groups of requests: what is known of a program or a conversation beyond its requests."""

from __future__ import annotations

import math
from typing import Any

from attrs import define, field


@define
class _Group:
    num_live: int = 0
    states: dict[int, dict[str, Any]] = field(factory=dict)


class Groups:
    """Keep state by group, for a time after the group's last request has ended.

    Args:
        time_to_live: Seconds that a group without live requests is remembered.

    Attributes:
        next_expiry: When the next group's time may be over (seconds on the clock).
    """

    def __init__(self, time_to_live: float) -> None:
        self._time_to_live = time_to_live
        self._groups: dict[str, _Group] = {}
        self._idle: dict[str, float] = {}  # when each one's time is over, the first one first
        self.next_expiry = math.inf

    def enter(self, name: str) -> None:
        """Note a live request of a group."""
        self._groups.setdefault(name, _Group()).num_live += 1
        self._idle.pop(name, None)

    def leave(self, name: str, now: float) -> None:
        """Note the end of a request of a group."""
        group = self._groups[name]
        group.num_live -= 1
        if not group.num_live:
            self._idle[name] = expires = now + self._time_to_live
            self.next_expiry = min(self.next_expiry, expires)

    def state(self, name: str, slot: int) -> dict[str, Any]:
        """A component's own dict for a group.

        Raises:
            KeyError: The group has no live request, and its time is over.
        """
        return self._groups[name].states.setdefault(slot, {})

    def purge(self, now: float) -> None:
        """Forget groups whose time is over: O(1) for each of them, whatever others are idle."""
        while self._idle:
            name, expires = next(iter(self._idle.items()))
            if expires > now:
                break
            del self._idle[name], self._groups[name]
        self.next_expiry = next(iter(self._idle.values()), math.inf)
