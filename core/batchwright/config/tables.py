"""The tables of a configuration, taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchwright.config.sections import Section, section_types
from batchwright.config.structure import Structure
from batchwright.config.use import LIST_KINDS, SELECTORS, Table, Use, entry


def take_apart(structure: Structure, table: Table) -> dict[str, Any]:
    """Return the arguments of ``Config`` that tables stand for."""
    known = dict.fromkeys([*section_types(), *SELECTORS, *LIST_KINDS])
    structure.refuse_unknown("section", "", table, list(known))
    options = {kind: _options(structure, kind, table[kind]) for kind in SELECTORS if kind in table}
    others: dict[str, Section] = {}
    values: dict[str, Any] = {"others": others, "options": {k: v for k, v in options.items() if v}}
    for name, cls in section_types().items():
        body = table.get(name, {})
        if isinstance(body, Mapping):  # options of components may stand in it, as [kv.NAME]
            body = {key: v for key, v in body.items() if key not in options.get(name, ())}
        section = structure.build(cls, body, name)
        if not issubclass(cls, Section):
            values[name] = section
        elif section != cls():
            others[name] = section
    for kind in LIST_KINDS:
        if kind in table:
            values[kind] = tuple(_uses(structure, kind, table[kind]))
    return values


def _options(structure: Structure, kind: str, body: object) -> dict[str, Table]:
    """The tables of options of a kind that is chosen once."""
    entries = body.items() if isinstance(body, Mapping) else ()
    tables = {name: value for name, value in entries if isinstance(value, Mapping)}
    if tables != body and kind not in section_types():
        choose = f"choose the {kind} with {SELECTORS[kind]}"
        structure.note(kind, f"expected tables of options, [{kind}.NAME], got {body!r}; {choose}")
    return tables


def _uses(structure: Structure, kind: str, entries: object) -> Iterator[Use]:
    if not isinstance(entries, list):
        structure.note(kind, f"expected an array of tables, [[{kind}]], got {entries!r}")
        return
    for index, values in enumerate(structure.build(list[Table], entries, kind)):
        if values is None:
            continue
        name = values.pop("use", None)
        if isinstance(name, str):
            yield entry(kind, index, name, values)
        else:
            structure.note(f"{kind}[{index}].use", f"expected the name of a {kind}, got {name!r}")
