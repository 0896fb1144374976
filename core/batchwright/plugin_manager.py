"""Find plugins, call their hooks once, and keep what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pluggy

from batchwright.default_plugins import DEFAULT_PLUGINS
from batchwright.exceptions import OUTSIDE, ConfigError, PluginError
from batchwright.hookspecs import HOOK_PREFIX, HOOKS, PROJECT
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
        self._offers: dict[tuple[str, str], dict[Origin, Registration | LazyComponent]] = {}
        """Components by kind and name, and by the plugins that offer them."""

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
        manager, hooks = cls(), pluggy.PluginManager(PROJECT)
        hooks.add_hookspecs(HOOKS)
        for origin, load_plugin in _enabled(list(find_sources(defaults, load, extra)), disable):
            with manager._noting(origin, "cannot be imported"):
                manager._read(origin, load_plugin(), hooks)
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
        offers = self._imported(kind, name)
        if len(offers) == 1:
            return offers[0]
        problem = _ambiguous(kind, name, offers) if offers else self._unknown(kind, name)
        raise PluginError(problem, where=option)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """List what is offered, by kind and name; those of one kind if it is given."""
        keys = sorted(key for key in self._offers if kind in (None, key[0]))
        return [offer for key in keys for offer in self._imported(*key)]

    def names(self, kind: str) -> list[str]:
        """Names of what is offered of a kind, sorted; imports nothing."""
        return sorted(name for (k, name), offers in self._offers.items() if k == kind and offers)

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
        origin = Origin(plugin=cls.__module__, module=cls.__module__)
        manager = PluginManager()
        manager.broken = [*self.broken]
        manager._offers = {key: {**offers} for key, offers in self._offers.items()}
        manager._offers[kind, cls.name] = {origin: _checked(origin, kind, cls)}
        return manager

    def _unknown(self, kind: str, name: str) -> str:
        choices = self.names(kind)
        hint = f"{did_you_mean(name, choices)} Choices: {', '.join(choices) or 'none'}."
        faults = [str(f.error()) for f in self.broken if f.may_have_offered(kind, name)]
        broken = " It may be missing because a plugin is broken: " if faults else ""
        return f"there is no {kind} {name!r}.{hint}{broken}{'; '.join(faults)}"

    @contextmanager
    def _noting(
        self, origin: Origin, what: str, where: str = "", name: str = "", hint: str = ""
    ) -> Iterator[None]:
        """Note whatever goes wrong while a plugin is looked at."""
        try:
            yield
        except OUTSIDE:
            raise
        except PluginError as error:
            self._note(origin, error.message, where or error.where, name)
        except BaseException as error:
            self._note(origin, f"{what}: {describe_error(error)}{hint}", where, name)

    def _note(self, origin: Origin, message: str, where: str, name: str = "") -> None:
        """Record that something of a plugin cannot be used."""
        fault = BrokenPlugin(**attrs.asdict(origin), message=message, where=where, name=name)
        self.broken.append(fault)

    def _read(self, origin: Origin, plugin: object, hooks: pluggy.PluginManager) -> None:
        """Check a plugin, and keep what its hooks return.

        Raises:
            PluginError: It cannot be used at all.
        """
        _register(hooks, plugin, str(origin))
        callers = hooks.get_hookcallers(plugin) or []
        for hook, problem in hook_problems(plugin, [caller.name for caller in callers]):
            self._note(origin, problem, hook)
        for caller in callers:
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin and caller.has_spec():
                    self._call(origin, caller.name, implementation.function)

    def _call(self, origin: Origin, hook: str, function: Callable[[], Any]) -> None:
        """Keep what one implementation of a hook returns."""
        with self._noting(origin, "failed", hook, hint="; expected a list of classes"):
            for offer in list(function()):
                self._keep(origin, hook, offer)

    def _keep(self, origin: Origin, hook: str, offer: Any) -> None:
        """Keep what a hook has returned if it is sound."""
        kind, name = hook.removeprefix(HOOK_PREFIX), str(getattr(offer, "name", ""))
        with self._noting(origin, "cannot be checked", hook, name):
            if not isinstance(offer, LazyComponent):
                offer = _checked(origin, kind, offer)
            offers = self._offers.setdefault((kind, name), {})
            if origin in offers:
                raise PluginError(f"two of its classes are named {name!r}: rename one")
            offers[origin] = offer
            if origin.explicit:  # a plugin that was asked for reports its faults
                self._imported(kind, name)

    def _imported(self, kind: str, name: str) -> list[Registration]:
        """Offers of a name; those that are known by their place are imported now."""
        sound: dict[Origin, Registration] = {}
        for origin, offer in self._offers.get((kind, name), {}).items():
            with self._noting(origin, "cannot be imported", HOOK_PREFIX + kind, name):
                if isinstance(offer, LazyComponent):
                    offer = _checked(origin, kind, offer.load())
                sound[origin] = offer
        self._offers[kind, name] = {**sound}
        return list(sound.values())


def _register(hooks: pluggy.PluginManager, plugin: object, name: str) -> None:
    """Find the hooks of a plugin.

    Raises:
        PluginError: It asks for another Batchwright, or its hooks are wrong.
    """
    api = getattr(plugin, "batchwright_api", PLUGIN_API_VERSIONS[-1])
    if str(api) not in PLUGIN_API_VERSIONS or type(api) not in (int, str):
        ours = ", ".join(PLUGIN_API_VERSIONS)
        message = f"asks for plugin API {api!r}; this Batchwright has {ours}"
        raise PluginError(f"{message}: install matching versions", where="batchwright_api")
    try:
        hooks.register(plugin, name)
    except pluggy.PluginValidationError as error:
        what = ": ".join(str(error).splitlines()[1:])
        raise PluginError(f"{what}; hooks take no arguments") from error
    except ValueError as error:
        raise PluginError("is announced twice; keep one of its entry points") from error


def _checked(origin: Origin, kind: str, cls: Any) -> Registration:
    """The registration of a class.

    Raises:
        PluginError: It is no component of that kind.
    """
    problem = class_problem(kind, cls)
    if problem is not None:
        raise PluginError(problem, where=HOOK_PREFIX + kind)
    return Registration(**attrs.asdict(origin), kind=kind, name=cls.name, cls=cls)


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
