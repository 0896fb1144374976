"""The outcome of an attempt to admit a waiting request."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Admitted:
    """The request runs."""


@frozen
class Ended:
    """The request has ended meanwhile."""


@frozen
class Rejected:
    """The request is to be ended: a gate rejects it, or a component failed on it."""

    reason: str


@frozen
class Deferred:
    """The request is put aside until ``signal(key)``.

    Args:
        key: The key.
        reason: Shown wherever it is asked why the request waits.
        lacks_resource: Whether it waits for a resource that other requests give back.
    """

    key: str
    reason: str
    lacks_resource: bool = False


@frozen
class Parked:
    """The request is put aside until ``signal(key)``."""

    key: str
    reason: str


@frozen
class NotNow:
    """The request keeps its place, and the scan stops, unless others may pass it.

    Args:
        reason: Shown wherever it is asked why the request waits.
        max_passed: The scan goes on behind it while fewer than this were passed over.
        lacks_room: Whether it lacks blocks, or a resource.
        lacks_blocks: Whether it would be admitted if there were more free blocks.
        lacks_resource: Whether it lacks a resource that names no key.
    """

    reason: str
    max_passed: int = 0
    lacks_room: bool = False
    lacks_blocks: bool = False
    lacks_resource: bool = False


Outcome = Admitted | Ended | Rejected | Deferred | Parked | NotNow

ADMITTED: Final = Admitted()
ENDED: Final = Ended()
