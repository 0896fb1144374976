"""The base of every conformance class: the component, and checks of any kind."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from batchwright.assembly import Assembly
from batchwright.clock import VirtualClock
from batchwright.config import LIST_KINDS, SELECTORS, Config
from batchwright.context import Sizes
from batchwright.plugin_checks import class_problem
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import SchedulerBase
from batchwright.scheduler import Scheduler

LIMITS = Sizes(
    max_num_seqs=4, max_num_batched_tokens=32, max_model_len=1024, block_size=4, num_blocks=24
)


class Conformance:
    """Check a component against the contract of its kind.

    Derive the class of the kind and say what is tested; pytest does the rest::

        from batchwright.testing.conformance import PolicyConformance
        from my_policy import ShortestPrompt

        class TestShortestPrompt(PolicyConformance):
            component = ShortestPrompt

    Attributes:
        component: The class that is tested.
        options: Its options, as a TOML table would hold them.
        config: More of the configuration that it is tested in, by section.
        request_fields: Fields of Request that every request of the tests gets, for a
            component that serves only requests that say something.
    """

    kind: ClassVar[str] = ""
    component: ClassVar[type[Any]]
    options: ClassVar[Mapping[str, Any]] = {}
    config: ClassVar[Mapping[str, Any]] = {}
    request_fields: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _folder_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever a component writes, it writes there."""
        monkeypatch.chdir(tmp_path)

    def test_class_is_sound(self) -> None:
        """It derives from its kind's contract, has a name, and takes what it is given."""
        assert class_problem(self.kind, self.component) is None

    def test_docstring_says_what_it_is(self) -> None:
        """The class's docstring is its page in the reference."""
        said = inspect.cleandoc(self.component.__dict__.get("__doc__") or "")
        assert said, f"{self.component.__name__} has no docstring"

    def test_options_are_documented(self) -> None:
        """Each option has a sentence: ``option(default, "What it decides.")``."""
        cls = getattr(self.component, "Options", None)
        if cls is None:
            return
        said = cls.__doc__ or ""
        missing = [
            field.name
            for field in attrs.fields(cls)
            if not field.metadata.get("help") and f"{field.name}:" not in said
        ]
        assert missing == [], f"options of {self.component.__name__} without a sentence: {missing}"

    def configuration(self, **sections: Any) -> dict[str, Any]:
        """A small configuration that selects the component: little memory, few seats.

        Args:
            sections: Sections that go over it.
        """
        base: dict[str, Any] = {
            "scheduler": {
                "max_num_seqs": LIMITS.max_num_seqs,
                "max_num_batched_tokens": LIMITS.max_num_batched_tokens,
            },
            "model": {"max_model_len": LIMITS.max_model_len},
            "kv": {"block_size": LIMITS.block_size, "num_blocks": LIMITS.num_blocks},
        }
        config = merged(merged(base, self._selection()), self.config)
        return merged(config, sections)

    def scheduler(self, cls: type[Any] | None = None, **sections: Any) -> Scheduler:
        """Build a scheduler with the component in it, on a clock that the test moves.

        Args:
            cls: A class to take its place.
            sections: Sections that go over ``configuration``.
        """
        found = self.any_scheduler(cls, **sections)
        assert isinstance(found, Scheduler)
        return found

    def any_scheduler(self, cls: type[Any] | None = None, **sections: Any) -> SchedulerBase:
        """Build the scheduler that the configuration selects; see ``scheduler``."""
        config = Config.from_dict(self.configuration(**sections))
        return Assembly(config, plugins=self.plugins(cls), clock=VirtualClock()).scheduler()

    def plugins(self, cls: type[Any] | None = None) -> PluginManager:
        """All installed plugins, and the component."""
        return _installed().with_component(self.kind, cls or self.component)

    def build(self) -> Any:
        """Build the component alone, without a scheduler."""
        config = Config.from_dict(self.configuration())
        assembly = Assembly(config, plugins=self.plugins(), clock=VirtualClock())
        (use,) = [u for u in config.uses() if (u.kind, u.name) == self._place and u.option]
        return assembly.make(use, LIMITS)

    @property
    def _place(self) -> tuple[str, str]:
        return self.kind, self.component.name

    def _selection(self) -> dict[str, Any]:
        """The part of a configuration that selects the component."""
        name, options = self.component.name, dict(self.options)
        if self.kind in LIST_KINDS:
            return {self.kind: [{"use": name, **options}]}
        section, _, key = SELECTORS[self.kind].partition(".")
        chosen: dict[str, Any] = {section: {key: name}}
        return merged(chosen, {self.kind: {name: options}} if options else {})


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Lay tables over tables; what is no table is replaced."""
    return dict(_merge(low, high))


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in dict.fromkeys((*low, *high)):
        below, above = low.get(key), high.get(key, low.get(key))
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            yield key, merged(below, above)
        else:
            yield key, above


@cache
def _installed() -> PluginManager:
    return PluginManager.discover(refuse_broken=False)
