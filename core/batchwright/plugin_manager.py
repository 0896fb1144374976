"""Finds plugins, calls their hooks once, and keeps what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pluggy

from batchwright import hookspecs
from batchwright.default_plugins import DEFAULT_PLUGINS
from batchwright.exceptions import ConfigError, PluginError
from batchwright.hookspecs import HOOK_PREFIX, PROJECT
from batchwright.plugin_hooks import describe_error, hook_functions, hook_problems, register_hooks
from batchwright.plugin_sources import (
    PluginSource,
    default_sources,
    entry_point_sources,
    file_sources,
    object_sources,
)
from batchwright.registration import (
    BrokenPlugin,
    Origin,
    Registration,
    class_problem,
    component_kinds,
)
from batchwright.suggest import did_you_mean


class PluginManager:
    """Every component that is installed, loaded from a file, or given.

    Nothing here activates anything: the TOML names what runs, and ``find`` is asked for
    that. A broken plugin is recorded, and matters to those who select what it offered.

    Attributes:
        broken: What cannot be used, in the order in which it was found.
    """

    def __init__(self) -> None:
        self.broken: list[BrokenPlugin] = []
        self._registrations: dict[tuple[str, str], list[Registration]] = {}
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
    ) -> PluginManager:
        """Load all plugins for a run.

        Args:
            load: Single-file plugins (``plugins.load``).
            disable: Plugins or distributions to leave out (``plugins.disable``).
            extra: Modules or objects with hooks, for embedding and tests.
            defaults: Dotted names of the modules that ship with Batchwright.

        Raises:
            ConfigError: ``disable`` names something that is not there.
            PluginError: A plugin in ``load`` or ``extra`` is broken.
        """
        manager = cls.inspect(load, disable, extra=extra, defaults=defaults)
        for fault in manager.broken:
            if fault.explicit:
                raise fault.error()
        return manager

    @classmethod
    def inspect(
        cls,
        load: Sequence[Path] = (),
        disable: Sequence[str] = (),
        *,
        extra: Sequence[object] = (),
        defaults: Sequence[str] = DEFAULT_PLUGINS,
    ) -> PluginManager:
        """Load all plugins to look at them: like ``discover``, but no broken one stops it.

        Raises:
            ConfigError: ``disable`` names something that is not there.
        """
        manager = cls()
        sources = list(
            chain(
                default_sources(defaults),
                entry_point_sources(),
                file_sources(load),
                object_sources(extra),
            )
        )
        for source in _enabled(sources, disable):
            manager._add(source)
        return manager

    def find(self, kind: str, name: str, *, option: str = "") -> Registration:
        """Find the component of a kind that has a name.

        Args:
            kind: E.g. ``policy``.
            name: E.g. ``fair``.
            option: TOML path of the option that selects it, for messages.

        Raises:
            PluginError: Nobody offers it, or more than one plugin does.
        """
        offers = self._registrations.get((kind, name), [])
        if len(offers) == 1:
            return offers[0]
        problem = _ambiguous(kind, name, offers) if offers else self._unknown(kind, name)
        raise PluginError(problem, where=option)

    def registrations(self, kind: str | None = None) -> list[Registration]:
        """List what is offered, by kind and name; those of one kind if it is given."""
        return [
            registration
            for key in sorted(self._registrations)
            if kind in (None, key[0])
            for registration in self._registrations[key]
        ]

    def _unknown(self, kind: str, name: str) -> str:
        choices = sorted(n for k, n in self._registrations if k == kind)
        faults = [fault for fault in self.broken if fault.may_have_offered(kind, name)]
        message = (
            f"there is no {kind} {name!r}.{did_you_mean(name, choices)} "
            f"Choices: {', '.join(choices) or 'none'}."
        )
        if faults:
            errors = "; ".join(str(fault.error()) for fault in faults)
            message += f" It may be missing because a plugin is broken: {errors}"
        return message

    def _add(self, source: PluginSource) -> None:
        """Import a plugin, check it, and keep what its hooks return."""
        origin = source.origin
        try:
            plugin = source.load()
            register_hooks(self._pluggy, str(origin), plugin)
        except PluginError as error:
            self.broken.append(origin.fault(error.message, where=error.where))
        except (Exception, SystemExit) as error:
            self.broken.append(origin.fault(f"cannot be imported: {describe_error(error)}"))
        else:
            for hook, problem in hook_problems(self._pluggy, plugin):
                kind = hook.removeprefix(HOOK_PREFIX)
                kind = kind if kind in component_kinds() else ""
                self.broken.append(origin.fault(problem, where=hook, kind=kind))
            for kind, function in hook_functions(self._pluggy, plugin):
                self._call(origin, kind, function)

    def _call(self, origin: Origin, kind: str, hook: Callable[[], Any]) -> None:
        """Call one implementation of a hook; keep what is sound, note what is not."""
        where = HOOK_PREFIX + kind
        try:
            offered = list(hook())
        except (Exception, SystemExit) as error:
            message = f"failed: {describe_error(error)}; expected a list of classes"
            self.broken.append(origin.fault(message, where=where, kind=kind))
            return
        for cls in offered:
            problem = class_problem(kind, cls)
            if problem is None and self._has(origin, kind, cls.name):
                problem = f"two of its classes are named {cls.name!r}: rename one"
            if problem is None:
                offers = self._registrations.setdefault((kind, cls.name), [])
                offers.append(origin.offer(kind, cls))
            else:
                name = str(getattr(cls, "name", ""))
                self.broken.append(origin.fault(problem, where=where, kind=kind, name=name))

    def _has(self, origin: Origin, kind: str, name: str) -> bool:
        offers = self._registrations.get((kind, name), [])
        return any(str(offer) == str(origin) for offer in offers)


def _enabled(sources: list[PluginSource], disable: Sequence[str]) -> list[PluginSource]:
    """Leave out the sources that ``disable`` names."""
    blocked = {_canonical(name) for name in disable}
    known = {_canonical(name): name for source in sources for name in source.names}
    for index, name in enumerate(disable):
        if _canonical(name) not in known:
            raise ConfigError(
                f"no plugin or distribution is named {name!r}."
                f"{did_you_mean(name, known.values())} Choices: "
                f"{', '.join(sorted(set(known.values())))}",
                path=f"plugins.disable[{index}]",
            )
    return [s for s in sources if blocked.isdisjoint(map(_canonical, s.names))]


def _canonical(name: str) -> str:
    """Distribution names compare without case, and '-', '_', '.' alike (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _ambiguous(kind: str, name: str, offers: Sequence[Registration]) -> str:
    names = ", ".join(repr(offer.plugin) for offer in offers)
    return (
        f"the {kind} {name!r} is offered by {' and by '.join(map(str, offers))}; "
        f"leave all but one out with plugins.disable (their names there: {names})"
    )
