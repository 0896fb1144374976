"""A whole configuration: sections, lists of components, options of components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from attrs import Factory, frozen

from batchwright.config.kinds import LIST_KINDS, SELECTORS, Table, Use
from batchwright.config.reading import Reader
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
from batchwright.config.structure import raise_problems
from batchwright.default_plugins import AUTO, DEFAULT_GATES
from batchwright.sampling_params import SamplingParams


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

        reader = Reader(mapping)
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
