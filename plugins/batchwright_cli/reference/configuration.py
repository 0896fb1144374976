"""Write the reference page of the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from batchwright.config import LIST_KINDS, SELECTORS, Config
from batchwright.config.sections import section_types
from batchwright_lab.configuration.option_docs import OptionDoc, document_options

__all__ = ["option_table", "render_reference"]

_INTRODUCTION = """\
# Configuration

<!-- Generated from the sections in batchwright.config; do not edit. -->

A configuration is a TOML file. Every section and every option has a default; the empty
file is valid. An unknown section, option or component is an error, and so is a value of
another type: nothing is coerced but an integer to a number. Relative paths start from
the folder of the file.

`batchwright config show --defaults` prints all this as TOML, `batchwright config check
FILE` checks a file, and `-o key.path=value` overrides a value, e.g.
`-o scheduler.policy=priority` or `-o gate[0].fraction=0.1`.
"""

_COMPONENTS = """\
## Components

Components come from plugins; `batchwright plugins` lists them with their options.

A kind that is chosen once is chosen by an option; the options of the component have a
table of their own, `[<kind>.<name>]`:

{once}

Kinds that compose are lists, in the order of the file. Each entry names its component
with `use` and holds its options. A list that is given replaces the default list, which
is {defaults}:

{lists}
"""


def render_reference() -> str:
    """Write the reference page, as Markdown, of all sections and options."""
    parts = [_INTRODUCTION]
    for section, cls in section_types().items():
        first_line = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
        parts.append(f"## [{section}]\n\n{first_line}\n\n{option_table(cls)}\n")
    return "\n".join([*parts, _components()])


def option_table(cls: Any) -> str:
    """Write the options of a section or of a component as a Markdown table."""
    rows = (
        f"| `{doc.name}` | {_cell(doc.type)} | {_cell(_default(doc))} | {_cell(doc.help)} |"
        for doc in document_options(cls)
    )
    return "\n".join(["| option | value | default | |", "|---|---|---|---|", *rows])


def _components() -> str:
    defaults = ", ".join(f"`{use.name}`" for use in Config().gate)
    once: Iterator[str] = (f"- `{kind}`: `{option}`" for kind, option in SELECTORS.items())
    return _COMPONENTS.format(
        once="\n".join(once),
        defaults=f"{defaults} for `gate` and empty for the others",
        lists="\n".join(f"- `[[{kind}]]`" for kind in LIST_KINDS),
    )


def _default(doc: OptionDoc) -> str:
    return doc.default_text or (f"`{doc.default_toml}`" if doc.default_toml else "none")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(render_reference(), end="")
