"""Reads a plugin's hooks with pluggy, and says what is wrong with them."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pluggy

from batchwright.exceptions import PluginError
from batchwright.hookspecs import HOOK_PREFIX
from batchwright.registration import component_kinds
from batchwright.suggest import did_you_mean
from batchwright.version import PLUGIN_API_VERSIONS

_OURS = re.compile(r"^<|importlib[/\\]__init__\.py$|batchwright[/\\]plugin_\w+\.py$")


def register_hooks(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    """Register a plugin with pluggy.

    Args:
        manager: Where it goes.
        name: Under which name, unique.
        plugin: A module or another object with hooks.

    Raises:
        PluginError: It asks for another plugin API, is registered already, or a hook
            takes the wrong arguments; nothing was registered.
    """
    api = getattr(plugin, "batchwright_api", PLUGIN_API_VERSIONS[-1])
    if api not in PLUGIN_API_VERSIONS:
        raise PluginError(
            f"asks for plugin API {api!r}; this Batchwright has "
            f"{', '.join(map(repr, PLUGIN_API_VERSIONS))}: install matching versions",
            where="batchwright_api",
        )
    try:
        manager.register(plugin, name)
    except pluggy.PluginValidationError as error:
        hook = re.search(r"hook '(\w+)'", str(error))
        raise PluginError(
            f"{str(error).splitlines()[-1]}; hooks take no arguments", where=hook[1] if hook else ""
        ) from error
    except ValueError as error:
        raise PluginError("is announced twice; keep one of its entry points") from error


def hook_functions(
    manager: pluggy.PluginManager, plugin: object
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the kind and the function of every known hook that a plugin implements."""
    for caller in manager.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin and caller.has_spec():
                yield caller.name.removeprefix(HOOK_PREFIX), implementation.function


def hook_problems(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, str]]:
    """Yield hook and problem for each hook that is unknown, unmarked or forgotten."""
    hooks = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
    known = [HOOK_PREFIX + kind for kind in component_kinds()]
    for name in hooks:
        if name not in known:
            choices = ", ".join(known)
            yield (name, f"there is no such hook.{did_you_mean(name, known)} Hooks: {choices}")
    unmarked = [n for n in dir(plugin) if n.startswith(HOOK_PREFIX) and n not in hooks]
    for name in unmarked:
        yield name, "is not marked as a hook: decorate it with @hookimpl"
    if not hooks and not unmarked:
        yield "", _forgotten_hook(plugin)


def _forgotten_hook(plugin: object) -> str:
    """Say which lines would offer the components that a module defines."""
    for kind, base in component_kinds().items():
        for name, cls in inspect.getmembers(plugin, inspect.isclass):
            if issubclass(cls, base) and cls.__module__ == getattr(plugin, "__name__", ""):
                return (
                    f"class {name} is never offered, since no hook returns it. Add:\n\n"
                    f"    @hookimpl\n"
                    f"    def {HOOK_PREFIX}{kind}():\n"
                    f"        return [{name}]\n"
                )
    return "has no hooks: expected functions marked with @hookimpl that return classes"


def describe_error(error: BaseException) -> str:
    """Type, message and place of an exception, on one line."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _OURS.search(frame.filename)
    ]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
