"""Find plugins, call their hooks once, and keep what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import pluggy

from batchwright import hookspecs
from batchwright.default_plugins import DEFAULT_PLUGINS
from batchwright.exceptions import OUTSIDE, ConfigError, PluginError
from batchwright.hookspecs import HOOK_PREFIX, PROJECT
from batchwright.lazy_component import LazyComponent
from batchwright.plugin_checks import class_problem, describe_error, hook_problems
from batchwright.plugin_sources import Source, find_sources
from batchwright.registration import BrokenPlugin, Origin, Registration
from batchwright.suggest import did_you_mean
from batchwright.version import PLUGIN_API_VERSIONS


class PluginManager:
    """Every component that is installed, loaded from a file, or given.

    Nothing here activates anything: the TOML names what runs, and ``find`` is asked for that. A
    broken plugin is recorded, and matters if a component that it offered is selected. What is
    offered by its place alone (``LazyComponent``) is imported when it is asked for.

    Attributes:
        broken: Broken plugins, in the order in which they were found; of components that
            were not asked for yet nothing is known.
    """

    def __init__(self) -> None:
        self.broken: list[BrokenPlugin] = []
        self._registrations: dict[tuple[str, str], list[Registration]] = {}
        self._to_import: dict[tuple[str, str], list[tuple[Origin, LazyComponent]]] = {}
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(hookspecs)

    @classmethod
    def discover(
        cls,
        load: Sequence[Path] = (),
        disable: Sequence[str] = (),
        *,
        extra: Sequence[object] = (),
        defaults: Sequence[str] = DEFAULT_PLUGINS,
        refuse_broken: bool = True,
    ) -> PluginManager:
        """Load all plugins.

        Args:
            load: Single-file plugins (``plugins.load``).
            disable: Plugins or distributions to leave out (``plugins.disable``).
            extra: Modules or objects with hooks, for embedding and tests.
            defaults: Dotted names of the modules that ship with Batchwright.
            refuse_broken: True if a broken plugin in ``load`` or ``extra`` is an error;
                False to look at what there is.

        Raises:
            ConfigError: ``disable`` names something that is not there.
            PluginError: A plugin in ``load`` or ``extra`` is broken.
        """
        manager = cls()
        for origin, load_plugin in _enabled(list(find_sources(defaults, load, extra)), disable):
            manager._add(origin, load_plugin)
        explicit = [fault for fault in manager.broken if fault.explicit]
        if explicit and refuse_broken:
            raise explicit[0].error()
        return manager

    def find(self, kind: str, name: str, *, option: str = "") -> Registration:
        """Find the component of a kind that has a name.

        Args:
            kind: E.g. ``policy``.
            name: E.g. ``fair``.
            option: TOML path of the option that selects it, for messages.

        Raises:
            PluginError: No plugin offers it, or more than one does.
        """
        self._import(kind, name)
        offers = self._registrations.get((kind, name), [])
        if len(offers) == 1:
            return offers[0]
        problem = _ambiguous(kind, name, offers) if offers else self._unknown(kind, name)
        raise PluginError(problem, where=option)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """List what is offered, by kind and name; those of one kind if it is given."""
        for key in [key for key in self._to_import if kind in (None, key[0])]:
            self._import(*key)
        found = [self._registrations[key] for key in sorted(self._registrations)]
        return [offer for offer in chain(*found) if kind in (None, offer.kind)]

    def names(self, kind: str) -> list[str]:
        """Names of what is offered of a kind, sorted; imports nothing."""
        return sorted(name for k, name in {*self._registrations, *self._to_import} if k == kind)

    def with_component(self, kind: str, cls: type[Any]) -> PluginManager:
        """Offer a class beside what is offered here, alone under its name; for tests.

        Args:
            kind: E.g. ``policy``.
            cls: Its class.

        Returns:
            Another manager; this one stays as it is.

        Raises:
            PluginError: It is no component of that kind.
        """
        problem = class_problem(kind, cls)
        if problem is not None:
            raise PluginError(problem, where=HOOK_PREFIX + kind)
        found = Registration(
            plugin=cls.__module__, module=cls.__module__, kind=kind, name=cls.name, cls=cls
        )
        manager = PluginManager()
        manager.broken = [*self.broken]
        manager._to_import = {**self._to_import}
        manager._to_import.pop((kind, cls.name), None)
        manager._registrations = {**self._registrations, (kind, cls.name): [found]}
        return manager

    def _unknown(self, kind: str, name: str) -> str:
        choices = self.names(kind)
        hint = f"{did_you_mean(name, choices)} Choices: {', '.join(choices) or 'none'}."
        faults = [str(f.error()) for f in self.broken if f.may_have_offered(kind, name)]
        broken = " It may be missing because a plugin is broken: " if faults else ""
        return f"there is no {kind} {name!r}.{hint}{broken}{'; '.join(faults)}"

    def _add(self, origin: Origin, load: Callable[[], object]) -> None:
        """Import a plugin, check it, and keep what its hooks return."""
        with self._noting(origin, "cannot be imported"):
            try:
                plugin = load()
                self._register(str(origin), plugin)
            except PluginError as error:
                self._note(origin, error.message, where=error.where)
            else:
                with self._noting(origin, "cannot be read"):
                    self._read(origin, plugin)

    @contextmanager
    def _noting(self, origin: Origin, what: str, where: str = "", name: str = "") -> Iterator[None]:
        """Note whatever a plugin raises while it is looked at."""
        try:
            yield
        except OUTSIDE:
            raise
        except BaseException as error:
            self._note(origin, f"{what}: {describe_error(error)}", where=where, name=name)

    def _register(self, name: str, plugin: object) -> None:
        api = getattr(plugin, "batchwright_api", PLUGIN_API_VERSIONS[-1])
        is_known = str(api) in PLUGIN_API_VERSIONS and type(api) in (int, str)
        if not is_known:
            ours = ", ".join(PLUGIN_API_VERSIONS)
            message = f"asks for plugin API {api!r}; this Batchwright has {ours}"
            raise PluginError(f"{message}: install matching versions", where="batchwright_api")
        try:
            self._pluggy.register(plugin, name)
        except pluggy.PluginValidationError as error:
            what = ": ".join(str(error).splitlines()[1:])
            raise PluginError(f"{what}; hooks take no arguments") from error
        except ValueError as error:
            raise PluginError("is announced twice; keep one of its entry points") from error

    def _read(self, origin: Origin, plugin: object) -> None:
        hooks = self._pluggy.get_hookcallers(plugin) or []
        for name, problem in hook_problems(plugin, [hook.name for hook in hooks]):
            self._note(origin, problem, where=name)
        for hook in hooks:
            for implementation in hook.get_hookimpls():
                if implementation.plugin is plugin and hook.has_spec():
                    self._call(origin, hook.name, implementation.function)

    def _call(self, origin: Origin, hook: str, function: Callable[[], Any]) -> None:
        """Call one implementation of a hook; keep what is sound, note what is not."""
        try:
            offered = list(function())
        except OUTSIDE:
            raise
        except BaseException as error:
            offered = []
            message = f"failed: {describe_error(error)}; expected a list of classes"
            self._note(origin, message, where=hook)
        kind = hook.removeprefix(HOOK_PREFIX)
        for found in offered:
            if isinstance(found, LazyComponent):
                self._to_import.setdefault((kind, found.name), []).append((origin, found))
                if origin.explicit:  # a plugin that was asked for reports its faults
                    self._import(kind, found.name)
            else:
                with self._noting(origin, "cannot be checked", hook):
                    self._take(origin, kind, found)

    def _import(self, kind: str, name: str) -> None:
        """Import what is offered under a name by its place."""
        for origin, offer in self._to_import.pop((kind, name), ()):
            with self._noting(origin, "cannot be imported", HOOK_PREFIX + kind, name):
                self._take(origin, kind, offer.load())

    def _take(self, origin: Origin, kind: str, cls: Any) -> None:
        """Keep a class if it is sound, or note what is not."""
        name = str(getattr(cls, "name", ""))
        self._import(kind, name)  # the first offer stands first
        offers = self._registrations.get((kind, name), [])
        problem = class_problem(kind, cls)
        if problem is None and any(str(offer) == str(origin) for offer in offers):
            problem = f"two of its classes are named {name!r}: rename one"
        if problem is not None:
            self._note(origin, problem, where=HOOK_PREFIX + kind, name=name)
            return
        found = Registration(**attrs.asdict(origin), kind=kind, name=name, cls=cls)
        self._registrations[kind, name] = [*offers, found]

    def _note(self, origin: Origin, message: str, where: str = "", name: str = "") -> None:
        """Record that something of a plugin cannot be used."""
        fault = BrokenPlugin(**attrs.asdict(origin), message=message, where=where, name=name)
        self.broken.append(fault)


def _enabled(sources: list[Source], disable: Sequence[str]) -> list[Source]:
    """Leave out the sources that ``disable`` names."""
    known = {_canonical(name): name for origin, _ in sources for name in origin.names}
    for index, name in enumerate(disable):
        if _canonical(name) not in known:
            choices = sorted(known.values())
            hint = f"{did_you_mean(name, choices)} Choices: {', '.join(choices)}"
            message = f"no plugin or distribution is named {name!r}.{hint}"
            raise ConfigError(message, path=f"plugins.disable[{index}]")
    blocked = set(map(_canonical, disable))
    return [s for s in sources if blocked.isdisjoint(map(_canonical, s[0].names))]


def _canonical(name: str) -> str:
    """Distribution names compare without case, and '-', '_', '.' alike (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _ambiguous(kind: str, name: str, offers: list[Registration]) -> str:
    names = ", ".join(repr(offer.plugin) for offer in offers)
    offered = " and by ".join(map(str, offers))
    advice = f"leave all but one out with plugins.disable (their names there: {names})"
    return f"the {kind} {name!r} is offered by {offered}; {advice}"
