"""Bounds of all numbers that a request brings: checked here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

MAX_TOKEN_ID: Final = 2**32 - 1
"""Largest token id that a request can hold (four bytes a token)."""
MAX_SECONDS: Final = 2**53
"""Latest time on the scheduler's clock that a request can name; floats hold it exactly."""

_COUNT: Final = 2**31 - 1
_DIGITS: Final = 60
"""Characters of a value that a message shows."""


class Bounds(NamedTuple):
    """A number's least and greatest value.

    Args:
        least: As far down as it may be.
        most: As far up as it may be.
        kinds: Types that pass.
        is_above: ``least`` itself does not pass.
        is_needed: None does not pass.
        note: Behind the bounds in a message.
    """

    least: float
    most: float
    kinds: tuple[type, ...] = (int, float)
    is_above: bool = False
    is_needed: bool = True
    note: str = ""

    def __str__(self) -> str:
        kind = "a number" if float in self.kinds else "an integer"
        span = f"above {self.least} and up to" if self.is_above else f"from {self.least} to"
        return f"{kind} {span} {self.most}{self.note}"

    def unmet(self, value: Any) -> str | None:
        """Say what a value has to be, if it is not; None if it is within the bounds."""
        least, most, kinds, is_above, is_needed, _ = self
        if value is None and not is_needed:
            return None
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if is_number and least <= value <= most and not (is_above and value == least):
            return None  # integers of any size are compared exactly
        return str(self)


WHOLE: Final = (int,)
BOUNDS: Final = {
    "max_tokens": Bounds(1, _COUNT, WHOLE, is_needed=False),
    "min_tokens": Bounds(0, _COUNT, WHOLE),
    "temperature": Bounds(0, 1000, note=" (0 is greedy)"),
    "top_p": Bounds(0, 1, is_above=True),
    "top_k": Bounds(0, _COUNT, WHOLE, note=" (0 keeps all)"),
    "min_p": Bounds(0, 1),
    "presence_penalty": Bounds(-2, 2),
    "frequency_penalty": Bounds(-2, 2),
    "repetition_penalty": Bounds(0.01, 100, note=" (1 is none)"),
    "seed": Bounds(-(2**63), 2**64 - 1, WHOLE, is_needed=False),
    "logprobs": Bounds(0, _COUNT, WHOLE, is_needed=False),
    "priority": Bounds(-(2**63), 2**63 - 1, WHOLE, note=" (smaller is more urgent)"),
    "arrival_time": Bounds(-MAX_SECONDS, MAX_SECONDS, is_needed=False, note=" (seconds)"),
    "deadline": Bounds(-MAX_SECONDS, MAX_SECONDS, is_needed=False, note=" (seconds)"),
}
"""By the name of the request's field, or of its sampling parameter."""


def number_problem(name: str, value: object) -> str | None:
    """Say what is wrong with a numeric field: its name, its bounds, the value; or None."""
    unmet = BOUNDS[name].unmet(value)
    return unmet and f"{name} must be {unmet}, not {shown(value)}"


def token_ids_problem(name: str, values: Iterable[object]) -> str | None:
    """Say which value of a list is no token id, or None."""
    for value in values:
        if type(value) is not int or not 0 <= value <= MAX_TOKEN_ID:
            what = f"token ids, integers from 0 to {MAX_TOKEN_ID}"
            return f"{name} must hold {what}, not {shown(value)}"
    return None


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
