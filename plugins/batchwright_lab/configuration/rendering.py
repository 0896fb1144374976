"""Writes a configuration as TOML."""

from __future__ import annotations

import codecs
import datetime as dt
import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from batchwright.config import LIST_KINDS, SELECTORS, Config

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_value(value: Any) -> str:
    """Write one value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if attrs.has(type(value)):
        value = attrs.asdict(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(_pairs(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(render_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def encodable(text: str) -> str:
    """Escape what standard output cannot take, as TOML escapes it.

    A TOML file is UTF-8: where standard output is not, only ASCII is the same in both.
    """
    if codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8":
        return text
    return _NOT_ASCII.sub(lambda found: _escape(ord(found[0])), text)


def _escape(point: int) -> str:
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


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
        if getattr(Config(), kind) and not getattr(config, kind)
    ]
    for name, section in config.sections().items():
        blocks.append([f"[{name}]", *_pairs(attrs.asdict(section, recurse=False))])
    for kind in SELECTORS:
        for name, table in config.options.get(kind, {}).items():
            blocks.append([f"[{kind}.{_key(name)}]", *_pairs(table)])
    blocks += [
        [f"[[{kind}]]", *_pairs({"use": use.name, **use.options})]
        for kind in LIST_KINDS
        for use in getattr(config, kind)
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"
