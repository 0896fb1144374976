"""Catches the signals that end a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Interrupted", "catching", "interrupt"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal that ends a command at once; what it has begun to write is cleaned up.

    Args:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def interrupt(number: int, _frame: FrameType | None = None) -> NoReturn:
    """Handle a signal by raising Interrupted."""
    raise Interrupted(number)


@contextmanager
def catching(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Have SIGINT and SIGTERM handled meanwhile.

    Where this is not the main thread, the program around gets the signals.
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
