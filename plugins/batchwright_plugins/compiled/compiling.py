"""How functions are compiled, and kept from one process to the next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from numba import njit
from numba.core.caching import FunctionCache

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])

_REORDERED = {"contract", "reassoc", "arcp", "nsz"}  # sums; NaN and infinity stay what they are


def compiled(function: Function, *, is_parallel: bool = False, variant: str = "") -> Function:
    """Compile a function when it is first called with arguments of some types.

    The machine code is kept in a file beside its source, or in the user's cache
    (``NUMBA_CACHE_DIR``), and read from there by later processes. It is made anew when
    the source file of the function itself or one of this folder changes.

    Args:
        function: Of arrays and numbers.
        is_parallel: Whether its ``prange`` loops are spread over threads.
        variant: What sets it apart from others that are made by the same code: each has
            files of its own, since their types do not tell them apart.
    """
    function.__qualname__ += f"{variant}_{_sources():08x}"
    dispatcher: Any = njit(
        nogil=True, fastmath=_REORDERED, error_model="numpy", parallel=is_parallel
    )(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT it is
        with suppress(RuntimeError):  # there is no folder that it may be kept in
            dispatcher._cache = _Kept(function)
    kept: Function = dispatcher
    return kept


class _Kept(FunctionCache):  # type: ignore[misc]
    """numba's files of a function; without them it is compiled for the process alone.

    Two processes that compile it for different types at once may leave an index that
    points to the code of the other one's: such code is not taken.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
            if found is None or found.signature.args == tuple(sig):
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
def _sources() -> int:
    """A number for what compiled functions are made of: numba watches only their own file."""
    number = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        number = crc32(path.read_bytes(), number)
    return number
