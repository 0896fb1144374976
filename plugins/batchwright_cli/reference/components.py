"""Write the reference page of the components that ship with Batchwright."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from batchwright.config import LIST_KINDS, SELECTORS
from batchwright.hookspecs import PROJECT
from batchwright.plugin_manager import PluginManager
from batchwright.registration import Registration
from batchwright_cli.reference.configuration import option_table
from batchwright_lab.configuration.option_docs import document_options

__all__ = ["render_components"]

_INTRODUCTION = """\
# Components

<!-- Generated from the components' docstrings and options; do not edit. -->

The shipped components. `batchwright plugins` lists these and all others that are
installed.
"""


def render_components() -> str:
    """Write the reference page, as Markdown, of all components that ship."""
    found = [r for r in PluginManager.discover().registrations() if r.distribution == PROJECT]
    parts = [_INTRODUCTION.strip()]
    for kind in (*SELECTORS, *LIST_KINDS):
        of_kind = [registration for registration in found if registration.kind == kind]
        if of_kind:
            parts.append(f"## {kind}")
        for registration in of_kind:
            parts += _component(registration)
    return "\n\n".join(parts) + "\n"


def _component(registration: Registration) -> Iterator[str]:
    yield f"### {registration.kind} `{registration.name}`"
    yield inspect.cleandoc(registration.cls.__doc__ or "").replace("``", "`")
    if document_options(registration.cls.Options):
        yield option_table(registration.cls.Options)


if __name__ == "__main__":
    print(render_components(), end="")
