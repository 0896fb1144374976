"""Takes a mapping apart into the parts of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchwright.config.kinds import LIST_KINDS, SECTIONS, SELECTORS, Table, Use
from batchwright.config.structure import Problem, structure
from batchwright.suggest import did_you_mean


class Reader:
    """Takes a mapping apart into the arguments of Config, and collects problems."""

    def __init__(self, mapping: Table) -> None:
        self.mapping: dict[str, Any] = _given(mapping)
        self.problems: list[Problem] = []

    def read(self) -> dict[str, Any]:
        self._refuse_unknown()
        options = {kind: self._options(kind) for kind in SELECTORS if kind in self.mapping}
        values: dict[str, Any] = {"options": {k: v for k, v in options.items() if v}}
        for section, cls in SECTIONS.items():
            if section in self.mapping:
                result = structure(cls, self._section(section), section)
                if isinstance(result, list):
                    self.problems += result
                values[section] = result
        for kind in LIST_KINDS:
            if kind in self.mapping:
                values[kind] = tuple(self._uses(kind))
        return values

    def _refuse_unknown(self) -> None:
        known = list(dict.fromkeys([*SECTIONS, *SELECTORS, *LIST_KINDS]))
        for key in self.mapping:
            if key not in known:
                hint = did_you_mean(key, known)
                message = f"unknown section.{hint} Sections: {', '.join(known)}"
                self.problems.append(Problem(key, message))

    def _section(self, section: str) -> object:
        """A section without the tables of options that it may hold, as [kv.NAME]."""
        body = self.mapping[section]
        if section not in SELECTORS or not isinstance(body, Mapping):
            return body
        return {key: value for key, value in body.items() if not isinstance(value, Mapping)}

    def _options(self, kind: str) -> dict[str, Table]:
        body = self.mapping[kind]
        if kind in SECTIONS:
            tables = body.items() if isinstance(body, Mapping) else ()
            return {name: table for name, table in tables if isinstance(table, Mapping)}
        if not isinstance(body, Mapping):
            self._misplaced(kind, kind, body)
            return {}
        for name, table in body.items():
            if not isinstance(table, Mapping):
                self._misplaced(kind, f"{kind}.{name}", table)
        return dict(body)

    def _misplaced(self, kind: str, path: str, value: object) -> None:
        message = (
            f"expected a table of options, [{kind}.NAME], got {value!r}; "
            f"choose the {kind} with {SELECTORS[kind]}"
        )
        self.problems.append(Problem(path, message))

    def _uses(self, kind: str) -> Iterator[Use]:
        entries = self.mapping[kind]
        if not isinstance(entries, list | tuple):
            message = f"expected an array of tables, [[{kind}]], got {entries!r}"
            self.problems.append(Problem(kind, message))
            return
        for index, entry in enumerate(entries):
            path = f"{kind}[{index}]"
            if not isinstance(entry, Mapping):
                self.problems.append(Problem(path, f"expected a table, got {entry!r}"))
            elif not isinstance(entry.get("use"), str):
                found = f", got {entry['use']!r}" if "use" in entry else "; it is required"
                message = f"expected the name of a {kind}{found}"
                self.problems.append(Problem(f"{path}.use", message))
            else:
                options = {key: value for key, value in entry.items() if key != "use"}
                yield Use(kind, entry["use"], path, f"{path}.use", options)


def _given(value: Any) -> Any:
    """Drop what is None from tables, at any depth: TOML has none, callers from code do."""
    if isinstance(value, Mapping):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list | tuple) else value
