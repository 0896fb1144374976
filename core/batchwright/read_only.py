"""Read-only attributes of views."""

from __future__ import annotations

from operator import attrgetter
from typing import Generic, TypeVar

T = TypeVar("T")


class Read(Generic[T]):
    """Declare an attribute of a view that is read from the object behind the view.

    It turns into a plain property when the class is made, so that reading costs what a
    property costs; to a type checker it is an attribute that cannot be assigned.

    Args:
        path: Path of the attribute; empty: the same name in ``_request``.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, property(attrgetter(self._path or f"_request.{name}")))

    def __get__(self, view: object, owner: type) -> T:
        raise AttributeError("replaced by a property when the class was made")
