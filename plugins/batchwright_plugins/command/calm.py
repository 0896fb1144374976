"""Keeps the garbage collector from looking at what does not become garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rarely_collecting"]

_OBJECTS: Final = 50_000


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Have cycles looked for every 50,000 new objects, among what is made from now on.

    A simulation makes hardly any: ended requests go as soon as nobody holds them.
    """
    young, *older = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(young, _OBJECTS), *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
        gc.unfreeze()
