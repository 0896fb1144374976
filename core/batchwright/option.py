"""Declare an option: its default, what it is for, its unit and its range."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

Check = Callable[[Any, "Attribute[Any]", Any], None]

_HOLDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "ge": (">=", operator.ge),
    "gt": (">", operator.gt),
    "le": ("<=", operator.le),
    "lt": ("<", operator.lt),
}


@frozen
class Range:
    """A validator of numbers that can say which ones it allows; None always passes."""

    bounds: Mapping[str, float]

    def __str__(self) -> str:
        return " and ".join(f"{_HOLDS[name][0]} {bound}" for name, bound in self.bounds.items())

    def __call__(self, instance: Any, attribute: Attribute[Any], value: Any) -> None:
        """Check a value.

        Raises:
            ValueError: It is outside; names the attribute and the range.
        """
        for name, bound in self.bounds.items():
            if value is not None and not _HOLDS[name][1](value, bound):
                raise ValueError(f"{attribute.name}: expected a number {self}, got {value!r}")


def option(
    default: Any,
    text: str = "",
    *,
    unit: str = "",
    default_text: str = "",
    check: Check | None = None,
    **bounds: float,
) -> Any:
    """Declare an option of a section or of a component's ``Options``.

    Messages, ``batchwright plugins``, ``batchwright config show --defaults`` and the
    reference are made from it.

    Args:
        default: Its value if the TOML has none; an ``attrs.Factory`` is called.
        text: Help, a noun phrase; empty: the class's docstring has it.
        unit: Of the number, e.g. ``tokens``.
        default_text: Text of the default, if the value does not show it.
        check: Called like an attrs validator, but the instance is None; it raises
            ValueError.
        bounds: Numbers that the value is compared with: ``ge``, ``gt``, ``le``, ``lt``.

    Returns:
        The result of ``attrs.field``.
    """
    allowed = Range(bounds)
    checks: list[Check] = [allowed] if bounds else []
    if check is not None:
        checks.append(check)
    metadata = {"help": text, "unit": unit, "default": default_text, "range": str(allowed)}
    return field(default=default, validator=checks, metadata={**metadata, "checks": checks})
