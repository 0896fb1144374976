"""The documentation of an option, read from its declaration."""

from __future__ import annotations

import inspect
import re
from typing import Any

import attrs
from attrs import frozen

from batchwright.config.structure import type_name
from batchwright_lab.configuration.rendering import render_value

__all__ = ["OptionDoc", "default_value", "document_options"]


@frozen
class OptionDoc:
    """One option, documented.

    Args:
        name: Key in its table.
        type: Allowed values, in words, with the range.
        default_toml: Its default as TOML; empty if it has none that TOML can say.
        default_text: The default in words, where its value does not say it.
        help: Its help.
    """

    name: str
    type: str
    default_toml: str
    default_text: str
    help: str


def document_options(cls: Any) -> list[OptionDoc]:
    """Document the options of a section or a component.

    Args:
        cls: An attrs class, or None for no options. What a field's metadata does not
            say (see ``batchwright.option``) is read from ``Args:`` in the docstring.
    """
    if cls is None:
        return []
    described = _described_arguments(cls)
    return [_document(field, described) for field in attrs.fields(attrs.resolve_types(cls))]


def _document(field: Any, described: dict[str, str]) -> OptionDoc:
    metadata = field.metadata
    allowed = " ".join(filter(None, (metadata.get("range"), metadata.get("unit"))))
    default = default_value(field)
    text = "required" if default is attrs.NOTHING else metadata.get("default", "")
    return OptionDoc(
        name=field.name,
        type=", ".join(filter(None, (type_name(field.type), allowed))),
        default_toml="" if default in (None, attrs.NOTHING) else render_value(default),
        default_text=text,
        help=metadata.get("help") or described.get(field.name, ""),
    )


def default_value(field: Any) -> Any:
    """The default if it does not depend on other options, else None."""
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        return None if field.default.takes_self else field.default.factory()
    return field.default


def _described_arguments(cls: type[Any]) -> dict[str, str]:
    """Parse the ``Args:`` of a docstring: one paragraph an argument, indented."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
