"""How functions are compiled, and kept from one process to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])

_REORDERED = {"contract", "reassoc", "arcp", "nsz"}  # sums; NaN and infinity stay what they are


def compiled(function: Function, *, is_parallel: bool = False) -> Function:
    """Compile a function when it is first called with arguments of some types.

    The machine code is kept in a file beside its source, or in the user's cache
    (``NUMBA_CACHE_DIR``), and read from there by later processes. It is made anew when
    the source file of the function itself changes.

    Args:
        function: Of arrays and numbers.
        is_parallel: Whether its ``prange`` loops are spread over threads.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": _REORDERED,
        "error_model": "numpy",
        "parallel": is_parallel,
    }
    try:
        kept: Function = njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder that it may be kept in
        kept = njit(**options)(function)
    return kept
