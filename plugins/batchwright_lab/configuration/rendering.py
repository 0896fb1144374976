"""Write a configuration as TOML."""

from __future__ import annotations

import codecs
import datetime as dt
import re
import sys
from collections.abc import Mapping
from typing import Any, cast

import attrs
import tomlkit
from tomlkit.items import AoT, Item

from batchwright.config import LIST_KINDS, SELECTORS, Config

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def render_value(value: Any) -> str:
    """Write one value as TOML, on one line."""
    return _item(value).as_string()


def render_table(values: Mapping[str, Any]) -> str:
    """Write values as TOML, a line each."""
    return tomlkit.dumps(_filled(tomlkit.document(), values))


def encodable(text: str) -> str:
    """Escape what standard output cannot take, as TOML escapes it.

    A TOML file is UTF-8: where standard output is not, only ASCII is the same in both.
    """
    if codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8":
        return text
    return _NOT_ASCII.sub(lambda found: _escape(ord(found[0])), text)


def _escape(point: int) -> str:
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def render_config(config: Config) -> str:
    """Write a configuration as TOML, with every value that is in effect."""
    blocks = [
        render_table({kind: []})  # says something only where the default list is not empty
        for kind in LIST_KINDS
        if getattr(Config(), kind) and not getattr(config, kind)
    ]
    for name, section in config.sections().items():
        values = attrs.asdict(section, recurse=False)
        blocks.append(_block(name, _filled(tomlkit.table(), values)))
    for kind in SELECTORS:
        for name, table in config.options.get(kind, {}).items():
            parent = tomlkit.table(is_super_table=True)
            blocks.append(_block(kind, parent.append(name, _filled(tomlkit.table(), table))))
    for kind in LIST_KINDS:
        for use in getattr(config, kind):
            values = {"use": use.name, **use.options}
            blocks.append(_block(kind, AoT([_filled(tomlkit.table(), values)])))
    return "\n".join(blocks)


def _block(name: str, content: Item) -> str:
    return tomlkit.dumps(tomlkit.document().append(name, content))


def _filled(table: Any, values: Mapping[str, Any]) -> Any:
    """Put values into a table, those that are None left out."""
    for key, value in values.items():
        if value is not None:
            table.append(key, _item(value))
    return table


def _item(value: Any) -> Item:
    """Turn a value into one of TOML; tables are inline."""
    if attrs.has(type(value)):
        value = attrs.asdict(value)
    if isinstance(value, Mapping):
        return cast("Item", _filled(tomlkit.inline_table(), value))
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(map(_item, value))
        return array
    is_plain = isinstance(value, bool | int | float | dt.date | dt.time)
    return tomlkit.item(value if is_plain else str(value))
