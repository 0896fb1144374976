"""The converter of TOML values: nothing is coerced but an integer to a float."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.cols import list_structure_factory
from cattrs.gen import make_dict_structure_fn, make_mapping_structure_fn, override

from batchwright.suggest import did_you_mean

Hook = Callable[[Any, Any], Any]

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    Path: "a path",
    NoneType: "nothing",
    list: "an array",
    tuple: "an array",
    Sequence: "an array",
    dict: "a table",
    Mapping: "a table",
}


def type_name(annotation: Any) -> str:
    """Say in words what values a type allows, e.g. ``an array of strings``."""
    arguments, origin = get_args(annotation), _origin(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin in (Union, UnionType):
        return " or ".join(type_name(t) for t in arguments if t is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return f"one of {', '.join(repr(member.value) for member in annotation)}"
    if attrs.has(annotation):
        return "a table"
    word = _WORDS.get(origin, getattr(annotation, "__name__", str(annotation)))
    if word == "an array" and arguments:
        return f"an array (each {type_name(arguments[0])})"
    return word


def _expected(annotation: Any, value: object, choices: Sequence[object] = ()) -> ValueError:
    hint = did_you_mean(value, map(str, choices)) if isinstance(value, str) else ""
    return ValueError(f"expected {type_name(annotation)}, got {value!r}.{hint}".rstrip("."))


@cache
def strict_converter() -> Converter:
    """Build the converter, once."""
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (bool, int, str):
        converter.register_structure_hook(kind, _exactly)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(Path, _path)
    for matches, factory in (
        (attrs.has, _table_hook),
        (lambda t: _origin(t) is Literal, _literal_hook),
        (lambda t: isinstance(t, type) and issubclass(t, Enum), _enum_hook),
        (lambda t: _origin(t) in (Union, UnionType), _union_hook),
        (_is_array, _array_hook),
        (lambda t: _origin(t) in (dict, Mapping), _mapping_hook),
    ):
        converter.register_structure_hook_factory(matches)(_bound(factory, converter))
    return converter


def _origin(annotation: Any) -> Any:
    """``list`` for ``list[int]``; the type itself where there is nothing to take off."""
    return get_origin(annotation) or annotation


def _is_array(annotation: Any) -> bool:
    if _origin(annotation) is tuple:
        return get_args(annotation)[1:] in ((), (Ellipsis,))
    return _origin(annotation) in (list, Sequence)


def _bound(factory: Callable[[Any, Converter], Hook], converter: Converter) -> Any:
    return lambda annotation: factory(annotation, converter)


def _exactly(value: object, kind: type) -> object:
    if type(value) is not kind:
        raise _expected(kind, value)
    return value


def _number(value: object, kind: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _expected(kind, value)
    return float(value)


def _path(value: object, kind: type) -> Path:
    if not isinstance(value, str | Path):
        raise _expected(kind, value)
    return Path(value)


def _literal_hook(annotation: Any, _: Converter) -> Hook:
    choices = get_args(annotation)

    def hook(value: object, _: Any) -> object:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise _expected(annotation, value, choices)

    return hook


def _enum_hook(annotation: Any, _: Converter) -> Hook:
    members = {member.value: member for member in annotation}

    def hook(value: object, _: Any) -> object:
        if isinstance(value, annotation):
            return value
        if not isinstance(value, str | int) or value not in members:
            raise _expected(annotation, value, list(members))
        return members[value]

    return hook


def _union_hook(annotation: Any, converter: Converter) -> Hook:
    """The first alternative that fits; the message of the only one, if there is one."""
    alternatives = [t for t in get_args(annotation) if t is not NoneType]
    optional = NoneType in get_args(annotation)

    def hook(value: object, _: Any) -> object:
        if value is None and optional:
            return None
        if len(alternatives) == 1:
            return converter.structure(value, alternatives[0])
        for alternative in alternatives:
            try:
                return converter.structure(value, alternative)
            except Exception:
                continue
        raise _expected(annotation, value)

    return hook


def _array_hook(annotation: Any, converter: Converter) -> Hook:
    item = (*get_args(annotation), Any)[0]
    fill = list_structure_factory(list[item], converter)  # type: ignore[valid-type]
    make = list if _origin(annotation) is list else tuple

    def hook(value: object, _: Any) -> object:
        if not isinstance(value, list | tuple):
            raise _expected(annotation, value)
        return make(fill(value, None))

    return hook


def _mapping_hook(annotation: Any, converter: Converter) -> Hook:
    fill = make_mapping_structure_fn(annotation, converter, structure_to=dict)

    def hook(value: object, _: Any) -> object:
        if not isinstance(value, Mapping):
            raise _expected(annotation, value)
        return fill(value, annotation)

    return hook


def _table_hook(cls: Any, converter: Converter) -> Hook:
    checked: dict[str, Any] = {
        attribute.name: override(struct_hook=_checked(attribute, converter))
        for attribute in attrs.fields(attrs.resolve_types(cls))
        if attribute.metadata.get("checks")
    }
    build = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **checked)

    def hook(value: object, _: Any) -> object:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise _expected(cls, value)
        return build(value, cls)

    return hook


def _checked(attribute: Any, converter: Converter) -> Hook:
    """Check each option by itself, so that all mistakes of a table are found at once."""

    def hook(value: object, annotation: Any) -> object:
        result = converter.structure(value, annotation)
        for check in attribute.metadata["checks"]:
            check(None, attribute, result)
        return result

    return hook
