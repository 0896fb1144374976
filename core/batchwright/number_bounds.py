"""Bounds of all numbers that a request brings: checked here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

MAX_TOKEN_ID: Final = 2**32 - 1
"""Largest token id that a request can hold (four bytes a token)."""
MAX_SECONDS: Final = 2**53
"""Latest time on the scheduler's clock that a request can name; floats hold it exactly."""

_COUNT: Final = 2**31 - 1
_DIGITS: Final = 60
"""Characters of a value that a message shows."""


@frozen
class _Bounds:
    """A number's least and greatest value.

    Args:
        least: As far down as it may be.
        most: As far up as it may be.
        is_whole: Only integers pass.
        is_above: ``least`` itself does not pass.
        note: Behind the bounds in a message.
    """

    least: float
    most: float
    is_whole: bool = False
    is_above: bool = False
    note: str = ""

    @property
    def kinds(self) -> tuple[type, ...]:
        """Types that pass."""
        return (int,) if self.is_whole else (int, float)

    def __str__(self) -> str:
        kind = "an integer" if self.is_whole else "a number"
        span = f"above {self.least} and up to" if self.is_above else f"from {self.least} to"
        return f"{kind} {span} {self.most}{self.note}"


_BOUNDS: Final = {
    "max_tokens": _Bounds(1, _COUNT, is_whole=True),
    "min_tokens": _Bounds(0, _COUNT, is_whole=True),
    "temperature": _Bounds(0, 1000, note=" (0 is greedy)"),
    "top_p": _Bounds(0, 1, is_above=True),
    "top_k": _Bounds(0, _COUNT, is_whole=True, note=" (0 keeps all)"),
    "min_p": _Bounds(0, 1),
    "presence_penalty": _Bounds(-2, 2),
    "frequency_penalty": _Bounds(-2, 2),
    "repetition_penalty": _Bounds(0.01, 100, note=" (1 is none)"),
    "seed": _Bounds(-(2**63), 2**64 - 1, is_whole=True),
    "logprobs": _Bounds(0, _COUNT, is_whole=True),
    "output_token_id": _Bounds(0, MAX_TOKEN_ID, is_whole=True),
    "priority": _Bounds(-(2**63), 2**63 - 1, is_whole=True, note=" (smaller is more urgent)"),
    "arrival_time": _Bounds(-MAX_SECONDS, MAX_SECONDS, note=" (seconds)"),
    "deadline": _Bounds(-MAX_SECONDS, MAX_SECONDS, note=" (seconds)"),
}
_CHECKS: Final = {
    name: (bounds.least, bounds.most, bounds.kinds, bounds.is_above)
    for name, bounds in _BOUNDS.items()
}


def unmet_bounds(name: str, value: Any) -> str | None:
    """Say what a numeric field of a request or of its sampling has to be, if it is not.

    Args:
        name: The field, e.g. ``top_k`` or ``deadline``.
        value: Its value; not None.

    Returns:
        Its kind and bounds; None if the value is within them.
    """
    least, most, kinds, is_above = _CHECKS[name]
    is_number = type(value) in kinds or (isinstance(value, kinds) and not isinstance(value, bool))
    if is_number and least <= value <= most and not (is_above and value == least):
        return None  # integers of any size are compared exactly
    return str(_BOUNDS[name])


def number_problem(name: str, value: object) -> str | None:
    """Say what is wrong with a numeric field: its name, its bounds, the value; or None."""
    unmet = unmet_bounds(name, value)
    return unmet and f"{name} must be {unmet}, not {shown(value)}"


def token_ids_problem(name: str, values: Iterable[object]) -> str | None:
    """Say which value of a list is no token id, or None."""
    for value in values:
        if type(value) is not int or not 0 <= value <= MAX_TOKEN_ID:
            what = f"token ids, integers from 0 to {MAX_TOKEN_ID}"
            return f"{name} must hold {what}, not {shown(value)}"
    return None


def span_problem(name: str, start: object, stop: object, num_tokens: int) -> str | None:
    """Say what is wrong with a span of positions of a prompt, or None."""
    if type(start) is int and type(stop) is int and 0 <= start < stop <= num_tokens:
        return None
    return (
        f"{name} must span positions of the prompt, 0 <= start < stop <= {num_tokens}, "
        f"not {shown(start)} to {shown(stop)}"
    )


def shown(value: object) -> str:
    """A value for a message: short, whatever it is.

    (Python refuses to write integers of over 4,300 digits.)
    """
    if isinstance(value, int) and value.bit_length() > 3 * _DIGITS:
        num_digits = int(math.log10(abs(value))) + 1
        begin = abs(value) // 10 ** (num_digits - 10)
        return f"{'-' if value < 0 else ''}{begin}... ({num_digits} digits)"
    try:
        text = repr(value)
    except Exception:  # it holds such an integer, or is a stranger
        text = f"a {type(value).__name__}"
    return text if len(text) <= _DIGITS else f"{text[: _DIGITS - 3]}..."
