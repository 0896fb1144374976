"""Defaults: all options as TOML with documentation, and those that a configuration leaves out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from batchwright.config import LIST_KINDS, SELECTORS, Config, Use
from batchwright.config.sections import section_types
from batchwright.exceptions import PluginError
from batchwright.plugin_manager import PluginManager
from batchwright.registration import Registration
from batchwright_lab.configuration.option_docs import OptionDoc, default_value, document_options
from batchwright_lab.configuration.rendering import render_value

__all__ = ["render_defaults", "with_component_defaults"]


def render_defaults(registrations: Iterable[Registration] = ()) -> str:
    """Write all options as commented TOML, each with what it is for and its default.

    Args:
        registrations: Components whose options follow the sections, commented out.
    """
    blocks = [list(_section(section, cls)) for section, cls in section_types().items()]
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


def with_component_defaults(config: Config, plugins: PluginManager) -> Config:
    """Add what the options of components are where the configuration does not say it.

    Args:
        config: The configuration.
        plugins: Plugins to choose from; a component that is not there has no defaults.
    """
    options = {kind: dict(tables) for kind, tables in config.options.items()}
    listed: dict[str, list[Use]] = {kind: [] for kind in LIST_KINDS}
    for use in config.uses():
        table = {**_defaults(use, plugins), **use.options}
        if use.kind in listed:
            listed[use.kind].append(attrs.evolve(use, options=table))
        elif table:
            options.setdefault(use.kind, {})[use.name] = table
    lists: dict[str, Any] = {kind: tuple(uses) for kind, uses in listed.items()}
    return attrs.evolve(config, options=options, **lists)


def _defaults(use: Use, plugins: PluginManager) -> dict[str, Any]:
    try:
        fields = attrs.fields(plugins.find(use.kind, use.name).cls.Options)
    except PluginError:
        return {}
    values = {field.name: default_value(field) for field in fields}
    return {name: value for name, value in values.items() if value is not attrs.NOTHING}
