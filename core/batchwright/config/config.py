"""A whole configuration: sections, lists of components, options of components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import Factory, frozen

from batchwright.config.sections import (
    DEFAULT_MAX_MODEL_LEN,
    AttentionSection,
    ExecutorSection,
    KVSection,
    ModelSection,
    PluginsSection,
    RunSection,
    SchedulerSection,
)
from batchwright.config.structure import Problem, raise_problems, structure
from batchwright.default_plugins import AUTO, DEFAULT_GATES
from batchwright.sampling_params import SamplingParams
from batchwright.suggest import did_you_mean

__all__ = ["LIST_KINDS", "SECTIONS", "SELECTORS", "Config", "Use"]

Table = Mapping[str, Any]

SECTIONS: Final[Mapping[str, type[Any]]] = {
    "model": ModelSection,
    "scheduler": SchedulerSection,
    "kv": KVSection,
    "attention": AttentionSection,
    "executor": ExecutorSection,
    "sampling": SamplingParams,
    "run": RunSection,
    "plugins": PluginsSection,
}
SELECTORS: Final = {
    "policy": "scheduler.policy",
    "victim": "scheduler.victim",
    "preemption": "scheduler.preemption",
    "kv": "kv.manager",
    "hasher": "kv.hasher",
    "eviction": "kv.eviction",
    "executor": "executor.use",
    "attention": "attention.backend",
}
"""Kinds chosen once, and the option that chooses; options in ``[<kind>.<name>]``."""

LIST_KINDS: Final = ("gate", "control", "limit", "resource", "observer")
"""Kinds that compose, in the order of ``[[<kind>]]``."""


@frozen
class Use:
    """One use of a component.

    Args:
        kind: E.g. ``gate``.
        name: E.g. ``watermark``.
        path: Where the TOML holds its options, e.g. ``gate[1]`` or ``policy.fair``.
        option: The option that selects it, e.g. ``gate[1].use``; empty if none does.
        options: Its table, not checked yet: see ``structure_options``.
    """

    kind: str
    name: str
    path: str
    option: str = ""
    options: Table = Factory(dict)


def _default_gates() -> tuple[Use, ...]:
    return tuple(
        Use("gate", name, f"gate[{index}]", f"gate[{index}].use")
        for index, name in enumerate(DEFAULT_GATES)
    )


@frozen(kw_only=True)
class Config:
    """A configuration, checked as far as it can be without plugins and a model.

    Build one with ``from_dict`` or ``load_config``; then ``check_components`` and
    ``check_combinations`` do the rest.

    Args:
        options: Options of components that are chosen once, by kind and name.
        base_path: Folder that relative paths start from.
        source: The file, for messages.
    """

    model: ModelSection = Factory(ModelSection)
    scheduler: SchedulerSection = Factory(SchedulerSection)
    kv: KVSection = Factory(KVSection)
    attention: AttentionSection = Factory(AttentionSection)
    executor: ExecutorSection = Factory(ExecutorSection)
    sampling: SamplingParams = Factory(SamplingParams)
    run: RunSection = Factory(RunSection)
    plugins: PluginsSection = Factory(PluginsSection)
    gate: tuple[Use, ...] = Factory(_default_gates)
    control: tuple[Use, ...] = ()
    limit: tuple[Use, ...] = ()
    resource: tuple[Use, ...] = ()
    observer: tuple[Use, ...] = ()
    options: Mapping[str, Mapping[str, Table]] = Factory(dict)
    base_path: Path = attrs.field(factory=Path, eq=False)
    source: str = attrs.field(default="", eq=False)

    @classmethod
    def from_dict(
        cls, mapping: Table, *, base_path: Path | None = None, source: str = ""
    ) -> Config:
        """Build a configuration from what a TOML file holds.

        Args:
            mapping: Tables by name; a value of None counts as not given.
            base_path: Folder that relative paths start from; None: the current one.
            source: The file, for messages.

        Raises:
            ConfigError: Something is wrong; names all of it.
        """
        from batchwright.config.combinations import check_combinations

        reader = _Reader(_given(mapping))
        values = reader.read()
        raise_problems(reader.problems, source)
        config = cls(**values, base_path=base_path or Path(), source=source)
        check_combinations(config, config.max_model_len)
        return config

    @property
    def max_model_len(self) -> int | None:
        """Longest request (tokens), or None where only the model can say it."""
        if self.model.max_model_len is not None or self.model.path is not None:
            return self.model.max_model_len
        return DEFAULT_MAX_MODEL_LEN

    @property
    def plugin_paths(self) -> list[Path]:
        """The files of ``plugins.load``."""
        return [self.resolve(path) for path in self.plugins.load]

    def resolve(self, path: str) -> Path:
        """Make a path of this configuration absolute or relative to the current folder."""
        return self.base_path / Path(path).expanduser()

    def once(self, kind: str) -> Use:
        """The component chosen for a kind of ``SELECTORS``; its name may be ``auto``."""
        selector = SELECTORS[kind]
        section, _, key = selector.partition(".")
        return self.named(kind, getattr(getattr(self, section), key), selector)

    def named(self, kind: str, name: str, option: str = "") -> Use:
        """A component of a kind that is chosen once, with its options if there are any."""
        options = self.options.get(kind, {}).get(name, {})
        return Use(kind, name, f"{kind}.{name}", option, options)

    def listed(self, kind: str) -> tuple[Use, ...]:
        """The components of a kind of ``LIST_KINDS``, in order."""
        uses: tuple[Use, ...] = getattr(self, kind)
        return uses

    def uses(self) -> Iterator[Use]:
        """Every component that is selected or has a table of options."""
        for kind in SELECTORS:
            chosen = self.once(kind)
            if chosen.name != AUTO:
                yield chosen
            for name in self.options.get(kind, ()):
                if name != chosen.name:
                    yield self.named(kind, name)
        for kind in LIST_KINDS:
            yield from self.listed(kind)

    def to_toml(self) -> str:
        """Write it as TOML, with every value that is in effect."""
        from batchwright.config.rendering import render_config

        return render_config(self)


def _given(value: Any) -> Any:
    """Drop what is None from tables, at any depth: TOML has none, callers from code do."""
    if isinstance(value, Mapping):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list | tuple) else value


class _Reader:
    """Takes a mapping apart into the arguments of Config, and collects problems."""

    def __init__(self, mapping: Table) -> None:
        self.mapping = mapping
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
