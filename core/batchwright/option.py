"""Declares an option: its default, what it is for, its unit and its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import Attribute, field, frozen

Check = Callable[[Any, "Attribute[Any]", Any], None]


@frozen
class Range:
    """A validator of numbers that can say which ones it allows; None always passes."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __str__(self) -> str:
        bounds = ((">=", self.ge), (">", self.gt), ("<=", self.le), ("<", self.lt))
        return " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)

    def __call__(self, instance: Any, attribute: Attribute[Any], value: Any) -> None:
        """Check a value.

        Raises:
            ValueError: It is outside; names the attribute and the range.
        """
        if value is not None and not self._holds(value):
            raise ValueError(f"{attribute.name}: expected a number {self}, got {value!r}")

    def _holds(self, value: float) -> bool:
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


def option(
    default: Any,
    text: str,
    *,
    unit: str = "",
    default_text: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    check: Check | None = None,
) -> Any:
    """Declare an option of a section or of a component's ``Options``.

    It is documented here and nowhere else: messages, ``batchwright plugins``,
    ``batchwright config show --defaults`` and the reference are made from it.

    Args:
        default: Its value if the TOML has none; an ``attrs.Factory`` is called.
        text: What it decides, one sentence.
        unit: Of the number, e.g. ``tokens``.
        default_text: What the default is, where the value does not say it.
        ge: Smallest number allowed.
        gt: Numbers must be greater.
        le: Greatest number allowed.
        lt: Numbers must be smaller.
        check: Called like an attrs validator, but the instance is None; it raises
            ValueError.

    Returns:
        What ``attrs.field`` returns.
    """
    bounds = Range(ge, gt, le, lt)
    validators = [v for v in (bounds if str(bounds) else None, check) if v is not None]
    metadata = {
        "help": text,
        "unit": unit,
        "default": default_text,
        "range": str(bounds),
        "checks": tuple(validators),
    }
    return field(default=default, validator=validators, metadata=metadata)
