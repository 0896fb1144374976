"""Declare an option: its default, what it is for, its unit and its range."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from attrs import Attribute, field

Check = Callable[[Any, "Attribute[Any]", Any], None]

_SIGNS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


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
    allowed = " and ".join(f"{_SIGNS[name]} {bound}" for name, bound in bounds.items())

    def check_range(_instance: Any, attribute: Attribute[Any], value: Any) -> None:
        holds = (getattr(operator, name)(value, bound) for name, bound in bounds.items())
        if value is not None and not all(holds):
            raise ValueError(f"{attribute.name}: expected a number {allowed}, got {value!r}")

    checks = [*([check_range] if bounds else []), *([check] if check is not None else [])]
    metadata = {"help": text, "unit": unit, "default": default_text, "range": allowed}
    return field(default=default, validator=checks, metadata={**metadata, "checks": checks})
