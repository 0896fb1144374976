"""Writes TOML: a configuration, or all options with their documentation."""

from __future__ import annotations

import datetime as dt
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from batchwright.config.config import LIST_KINDS, SECTIONS, SELECTORS, Config
from batchwright.config.documentation import OptionDoc, document_options
from batchwright.registration import Registration

__all__ = ["render_config", "render_defaults", "render_value"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_value(value: Any) -> str:
    """Write one value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return f"{{{', '.join(_pairs(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(render_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if value is not None:
            yield f"{_key(key)} = {render_value(value)}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else render_value(key)


def render_config(config: Config) -> str:
    """Write a configuration as TOML, with every value that is in effect."""
    blocks = [
        [f"{kind} = []"]  # says something only where the default list is not empty
        for kind in LIST_KINDS
        if Config().listed(kind) and not config.listed(kind)
    ]
    for section in SECTIONS:
        values = attrs.asdict(getattr(config, section), recurse=False)
        blocks.append([f"[{section}]", *_pairs(values)])
    for kind in SELECTORS:
        for name, table in config.options.get(kind, {}).items():
            blocks.append([f"[{kind}.{_key(name)}]", *_pairs(table)])
    blocks += [
        [f"[[{kind}]]", *_pairs({"use": use.name, **use.options})]
        for kind in LIST_KINDS
        for use in config.listed(kind)
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def render_defaults(registrations: Iterable[Registration] = ()) -> str:
    """Write all options as commented TOML, each with what it is for and its default.

    Args:
        registrations: Components whose options follow the sections, commented out.
    """
    blocks = [list(_section(section, cls)) for section, cls in SECTIONS.items()]
    for registration in registrations:
        docs = document_options(getattr(registration.cls, "Options", None))
        if docs:
            blocks.append(list(_component(registration, docs)))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _section(section: str, cls: type[Any]) -> Iterator[str]:
    yield f"[{section}]"
    for doc in document_options(cls):
        yield from _comment(doc)
        if doc.default is None:
            yield f"# {doc.name} ="
        else:
            yield f"{doc.name} = {render_value(doc.default)}"


def _component(registration: Registration, docs: list[OptionDoc]) -> Iterator[str]:
    if registration.kind in SELECTORS:
        yield f"# [{registration.kind}.{registration.name}]"
    else:
        yield f"# [[{registration.kind}]]"
        yield f"# use = {render_value(registration.name)}"
    for doc in docs:
        yield from _comment(doc)
        value = (
            "" if doc.default in (None, attrs.NOTHING) else f" {render_value(doc.default)}"
        )
        yield f"# {doc.name} ={value}"


def _comment(doc: OptionDoc) -> Iterator[str]:
    default = f" Default: {doc.default_text}." if doc.default_text else ""
    text = f"{doc.help} ({doc.type}){default}"
    yield from textwrap.wrap(
        text.strip(), 88, initial_indent="# ", subsequent_indent="#   "
    )
