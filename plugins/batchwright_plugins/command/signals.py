"""Catches the signals that end a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["catching"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def catching(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Have SIGINT and SIGTERM handled meanwhile.

    Where this is not the main thread, whoever runs us gets the signals.
    """
    try:
        before = {number: signal.signal(number, handler) for number in _SIGNALS}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
