"""The compilation of functions, and its cache between processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

from .atomics import WORK

__all__ = ["compiled", "compiled_work"]

Function = TypeVar("Function", bound=Callable[..., Any])

_REORDERED = {"contract", "reassoc", "arcp", "nsz"}  # sums; NaN and infinity stay what they are


def compiled(function: Function) -> Function:
    """Compile a function when it is first called with arguments of some types.

    The machine code is kept in a file beside its source, or in the user's cache
    (``NUMBA_CACHE_DIR``), and read from there by later processes. It is made anew when
    the source file of the function itself or one of this folder changes.

    Args:
        function: Of arrays and numbers.
    """
    function.__qualname__ += f"_{_sources():08x}"
    dispatcher: Any = njit(nogil=True, fastmath=_REORDERED, error_model="numpy")(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT it is
        with suppress(RuntimeError):  # there is no folder that it may be kept in
            dispatcher._cache = _Kept(function)
    kept: Function = dispatcher
    return kept


def compiled_work(function: Function, *, variant: str = "") -> Any:
    """Compile, at once, a part of some work that threads share; see ``team``.

    Args:
        function: Of the type ``atomics.WORK``.
        variant: Name that separates it from others made by the same code: each has
            files of its own. All that the code closes over has to be in it, and to be
            numbers, which are constants for the compiler.

    Returns:
        An object with the function's address in this process as ``address``.
    """
    function.__qualname__ += f"{variant}_{_sources():08x}"
    options = {"fastmath": _REORDERED, "error_model": "numpy"}
    work: Any = CFunc(function, normalize_signature(WORK), {}, options)
    with suppress(RuntimeError):  # there is no folder that it may be kept in
        work._cache = _Kept(function)
    work.compile()
    return work


class _Kept(FunctionCache):  # type: ignore[misc]
    """numba's files of a function; without them it is compiled for the process alone.

    Two processes that compile it for different types at once may leave an index that
    points to the code of the other one's: such code is not taken.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._found(sig, target_context)
        if found is None:
            _announce()
        return found

    def _found(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
            if found is None or found.signature.args == tuple(getattr(sig, "args", sig)):
                return found
        except Exception:  # a file broke: whatever comes of unpickling it
            pass
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # for instance of a full disk
            super().save_overload(sig, data)


@cache
def _announce() -> None:
    """Print on a terminal, once a process, the reason of the wait."""
    if sys.stderr.isatty():
        print("compiling for this CPU, which takes some seconds, once", file=sys.stderr)


@cache
def _sources() -> int:
    """A number for what compiled functions are made of: numba watches only their own file."""
    number = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        number = crc32(path.read_bytes(), number)
    return number
