"""The check that functions can be compiled here."""

from __future__ import annotations

import os
from functools import cache

__all__ = ["problem"]

_LEAST = (0, 61)


@cache
def problem() -> str | None:
    """Return in one sentence why this process cannot compile functions; None if it can.

    That numba is installed does not say so: one built for another numpy cannot be
    imported.
    """
    try:
        import numba
    except Exception as error:  # its checks raise errors of many kinds
        return f"numba cannot be imported: {error}"
    if numba.version_info.short < _LEAST:
        least = ".".join(map(str, _LEAST))
        return f"it needs numba >={least}, and {numba.__version__} is installed"
    if not hasattr(os, "sched_yield"):
        return "its threads need sched_yield, which this system has not"
    if numba.config.DISABLE_JIT:
        return "numba compiles nothing where NUMBA_DISABLE_JIT is set"
    return None
