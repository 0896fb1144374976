"""A whole configuration: sections, lists of components, options of components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import Factory, frozen

from batchwright.config import sections
from batchwright.config.sections import Section, section_types
from batchwright.config.structure import Structure
from batchwright.config.tables import take_apart
from batchwright.config.use import LIST_KINDS, SELECTORS, Table, Use, entry
from batchwright.default_plugins import AUTO, DEFAULT_GATES
from batchwright.exceptions import ConfigError
from batchwright.sampling_params import SamplingParams

S = TypeVar("S", bound=Section)


def _nowhere(_path: str) -> None:
    """The line of every option, where no file has it."""


def _default_gates() -> tuple[Use, ...]:
    return tuple(entry("gate", index, name, {}) for index, name in enumerate(DEFAULT_GATES))


@frozen(kw_only=True)
class Config:
    """A configuration, checked as far as it can be without plugins and a model.

    Build one with ``from_dict`` or ``load_config``; then ``check_components`` and
    ``check_combinations`` do the rest.

    Args:
        others: Sections that packages beside the core declare, where they are not default;
            see ``section``.
        options: Options of components that are chosen once, by kind and name.
        base_path: Folder that relative paths start from.
        source: The file, and maybe overrides, for messages.
        line_of: Finds the line of the file at which an option stands; None if it has it not.
        file: The TOML file; None if there is none.
    """

    model: sections.ModelSection = Factory(sections.ModelSection)
    scheduler: sections.SchedulerSection = Factory(sections.SchedulerSection)
    kv: sections.KVSection = Factory(sections.KVSection)
    sampling: SamplingParams = Factory(SamplingParams)
    plugins: sections.PluginsSection = Factory(sections.PluginsSection)
    gate: tuple[Use, ...] = Factory(_default_gates)
    control: tuple[Use, ...] = ()
    limit: tuple[Use, ...] = ()
    resource: tuple[Use, ...] = ()
    feature: tuple[Use, ...] = ()
    observer: tuple[Use, ...] = ()
    others: Mapping[str, Section] = Factory(dict)
    options: Mapping[str, Mapping[str, Table]] = Factory(dict)
    base_path: Path = attrs.field(factory=Path, eq=False)
    source: str = attrs.field(default="", eq=False)
    line_of: Callable[[str], int | None] = attrs.field(default=_nowhere, eq=False)
    file: Path | None = attrs.field(default=None, eq=False)

    @classmethod
    def from_dict(
        cls, mapping: Table, *, base_path: Path | None = None, source: str = ""
    ) -> Config:
        """Build a configuration from what a TOML file holds; see ``read``.

        Args:
            mapping: Tables by name; a value of None counts as not given.
            base_path: Folder that relative paths start from; None: the current one.
            source: The file, for messages.
        """
        return cls(base_path=base_path or Path(), source=source).read(mapping)

    def read(self, mapping: Table) -> Config:
        """Return this configuration with what a TOML file holds.

        Args:
            mapping: Tables by name; a value of None counts as not given.

        Raises:
            ConfigError: Something is wrong; names all of it.
        """
        from batchwright.config.checks import check_combinations

        if not isinstance(mapping, Mapping):
            raise ConfigError(
                f"expected a dict of tables, as in the TOML file, got {mapping!r}; from a file: "
                "batchwright.assembly.Assembly(batchwright.config.load_config(path)).scheduler()",
                source=self.source,
            )
        structure = Structure()
        config = attrs.evolve(self, **take_apart(structure, _given(mapping)))
        self.refuse(structure.problems)
        check_combinations(config, config.max_model_len)
        return config

    @property
    def max_model_len(self) -> int | None:
        """Longest request (tokens), or None where only the model can say it."""
        if self.model.max_model_len is not None or self.model.path is not None:
            return self.model.max_model_len
        return sections.DEFAULT_MAX_MODEL_LEN

    @property
    def plugin_paths(self) -> list[Path]:
        """The files of ``plugins.load``."""
        return [self.resolve(path) for path in self.plugins.load]

    def resolve(self, path: str) -> Path:
        """Make a path of this configuration absolute or relative to the current folder."""
        return self.base_path / Path(path).expanduser()

    def error(self, path: str, message: str) -> ConfigError:
        """Return the error of one option, with its line where a file has it.

        Args:
            path: Dotted TOML path, e.g. ``gate[1].fraction``.
            message: The value that was found, and the expected one.
        """
        line = self.line_of(path)
        name, sign, overrides = self.source.partition(" -o ")
        place = self.source if line is None else f"{name}:{line}{sign}{overrides}"
        return ConfigError(message, path=path, source=place)

    def refuse(self, problems: Iterable[tuple[str, str]]) -> None:
        """Raise one error for all problems; return if there are none.

        Args:
            problems: TOML path and message of each; see ``error``.

        Raises:
            ConfigError: There is a problem.
        """
        found = list(dict.fromkeys(problems))
        if len(found) == 1:
            raise self.error(*found[0])
        lines = []
        for path, message in found:
            line = self.line_of(path)
            lines.append(f"\n  {path}{'' if line is None else f' (line {line})'}: {message}")
        if lines:
            raise ConfigError(f"{len(lines)} problems:{''.join(lines)}", source=self.source)

    def build_options(self, component: Any, table: Table, path: str) -> Any:
        """Build the options of a component.

        Args:
            component: Its class.
            table: Its TOML table, without ``use``.
            path: Its TOML path, e.g. ``gate[1]``.

        Returns:
            An instance of ``component.Options``.

        Raises:
            ConfigError: Unknown keys, wrong types, values out of range: all of them.
        """
        structure = Structure()
        options = structure.build(component.Options, table, path)
        self.refuse(structure.problems)
        return options

    def section(self, cls: type[S]) -> S:
        """Return a section that a package beside the core declares."""
        found = self.others.get(cls.name, None)
        return found if isinstance(found, cls) else cls()

    def with_section(self, section: Section) -> Config:
        """Return this configuration with another section in the place of one of its own."""
        return attrs.evolve(self, others={**self.others, section.name: section})

    def sections(self) -> dict[str, Any]:
        """Return all sections by name, in the order of the reference."""
        return {
            name: self.section(cls) if issubclass(cls, Section) else getattr(self, name)
            for name, cls in section_types().items()
        }

    def once(self, kind: str) -> Use:
        """The component chosen for a kind of ``SELECTORS``; its name may be ``auto``."""
        section, _, key = SELECTORS[kind].partition(".")
        return self.named(kind, getattr(self.sections()[section], key), SELECTORS[kind])

    def named(self, kind: str, name: str, option: str = "") -> Use:
        """A component of a kind that is chosen once, with its options if there are any."""
        options = self.options.get(kind, {}).get(name, {})
        return Use(kind, name, f"{kind}.{name}", option, options)

    def uses(self) -> Iterator[Use]:
        """Every component that is selected or has a table of options."""
        for kind in SELECTORS:
            chosen = self.once(kind)
            if chosen.name != AUTO:
                yield chosen
            others = (name for name in self.options.get(kind, ()) if name != chosen.name)
            yield from (self.named(kind, name) for name in others)
        for section in self.others.values():
            for option, kind in section.components.items():
                if (name := getattr(section, option)) != AUTO:
                    yield self.named(kind, name, f"{section.name}.{option}")
        for kind in LIST_KINDS:
            yield from getattr(self, kind)

    def unselected(self) -> Iterator[Use]:
        """The tables of options of components that nothing names."""
        uses = list(self.uses())
        named = {value for use in uses for value in use.options.values() if isinstance(value, str)}
        selected = {(use.kind, use.name) for use in uses if use.option or use.kind in LIST_KINDS}
        for use in uses:
            is_named = (use.kind, use.name) in selected or use.name in named
            if not is_named and self.once(use.kind).name != AUTO:
                yield use


def _given(value: Any) -> Any:
    """Drop what is None from tables, at any depth: TOML has none, callers from code do."""
    if isinstance(value, Mapping):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list | tuple) else value
