"""Writes all options as TOML, each with its documentation and its default."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from batchwright.config import SECTIONS, SELECTORS
from batchwright.registration import Registration
from batchwright_plugins.command.option_docs import OptionDoc, document_options
from batchwright_plugins.command.rendering import render_value

__all__ = ["render_defaults"]


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
        yield f"{doc.name} = {doc.default_toml}" if doc.default_toml else f"# {doc.name} ="


def _component(registration: Registration, docs: list[OptionDoc]) -> Iterator[str]:
    if registration.kind in SELECTORS:
        yield f"# [{registration.kind}.{registration.name}]"
    else:
        yield f"# [[{registration.kind}]]"
        yield f"# use = {render_value(registration.name)}"
    for doc in docs:
        yield from _comment(doc)
        yield f"# {doc.name} = {doc.default_toml}".rstrip()


def _comment(doc: OptionDoc) -> Iterator[str]:
    default = f" Default: {doc.default_text}." if doc.default_text else ""
    text = f"{doc.help} ({doc.type}){default}"
    yield from textwrap.wrap(text.strip(), 88, initial_indent="# ", subsequent_indent="#   ")
