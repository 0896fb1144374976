"""Find the problems of a plugin's hooks and of the classes that they return."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterator
from typing import Any

import attrs

from batchwright.hookspecs import COMPONENT_KINDS, HOOK_PREFIX
from batchwright.protocols.component import Component
from batchwright.suggest import did_you_mean

_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_OURS = re.compile(
    r"^<|importlib[/\\]__init__\.py$|batchwright[/\\](?:plugin_\w+|single_files)\.py$"
)


def hook_problems(plugin: object, hooks: list[str]) -> Iterator[tuple[str, str]]:
    """Yield hook and problem for each hook that is unknown, unmarked or forgotten.

    Args:
        plugin: A module or another object with hooks.
        hooks: Its functions that are marked as hooks.
    """
    known = [HOOK_PREFIX + kind for kind in COMPONENT_KINDS]
    for name in hooks:
        if name not in known:
            choices = ", ".join(known)
            yield name, f"there is no such hook.{did_you_mean(name, known)} Hooks: {choices}"
    unmarked = [n for n in dir(plugin) if n.startswith(HOOK_PREFIX) and n not in hooks]
    for name in unmarked:
        yield name, "is not marked as a hook: decorate it with @hookimpl"
    if not hooks and not unmarked:
        yield "", _forgotten_hook(plugin)


def _forgotten_hook(plugin: object) -> str:
    """Say which lines would offer the components that a module defines."""
    for kind, base in COMPONENT_KINDS.items():
        for name, cls in inspect.getmembers(plugin, inspect.isclass):
            if issubclass(cls, base) and cls.__module__ == getattr(plugin, "__name__", ""):
                lines = f"@hookimpl\n    def {HOOK_PREFIX}{kind}():\n        return [{name}]\n"
                return (
                    f"class {name} is never offered, since no hook returns it. Add:\n\n    {lines}"
                )
    return "has no hooks: expected functions marked with @hookimpl that return classes"


def class_problem(kind: str, offered: Any) -> str | None:
    """Say why an object that a hook returned is no component of a kind; None if it is."""
    base = COMPONENT_KINDS[kind]
    if isinstance(offered, type) and issubclass(offered, base):
        return next(_class_problems(offered, base), None)
    return f"{getattr(offered, '__name__', offered)} is not derived from {base.__name__}; derive it"


def _class_problems(cls: Any, base: type[Any]) -> Iterator[str]:
    if not cls.name:
        yield f'{cls.__name__} has no name; add: name = "..."'
    elif not _NAME.fullmatch(str(cls.name)):
        expected = "lower-case letters and digits, in words joined by '-'"
        yield f"{cls.__name__}.name is {cls.name!r}; expected {expected}"
    if hasattr(cls, "Options"):
        yield from _options_problems(f"{cls.__name__}.Options", cls.Options)
    if cls.__abstractmethods__:
        missing = ", ".join(sorted(cls.__abstractmethods__))
        yield f"{cls.__name__} lacks {missing}, which {base.__name__} asks for"
    contract = {n: f for n, f in inspect.getmembers(base, inspect.isfunction) if n[0] != "_"}
    own = {name: inspect.getattr_static(cls, name) for name in contract}
    for name, method in own.items():
        if inspect.isfunction(method) and method is not contract[name]:
            yield from _method_problems(f"{cls.__name__}.{name}", contract[name], method)
    asked = [name for name in contract if not hasattr(Component, name)]
    if all(own[name] is contract[name] for name in asked):  # it decides nothing: is one misspelt?
        for name, _ in inspect.getmembers(cls, inspect.isfunction):
            if not hasattr(base, name) and name[0] != "_" and did_you_mean(name, asked):
                yield f"{cls.__name__}.{name} is never called.{did_you_mean(name, asked)}"


def _options_problems(where: str, options: Any) -> Iterator[str]:
    if not attrs.has(options):
        yield f"{where} is {options!r}; expected an attrs class (use @attrs.frozen)"
        return
    try:
        attrs.resolve_types(options)
    except NameError as error:
        yield f"{where}: {error}; annotations need imports outside of TYPE_CHECKING"


def _method_problems(where: str, declared: Any, defined: Any) -> Iterator[str]:
    called, taken = inspect.signature(declared), inspect.signature(defined)
    parameters = called.parameters.values()
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    try:
        taken.bind(*[p for p in called.parameters if p not in keywords], **dict.fromkeys(keywords))
    except TypeError:
        takes, call = ", ".join(taken.parameters), ", ".join(called.parameters)
        yield f"{where} takes ({takes}); it is called as ({call})"
    if inspect.iscoroutinefunction(defined) and not inspect.iscoroutinefunction(declared):
        yield f"{where} is async; it is called without await: make it a plain function"


def describe_error(error: BaseException) -> str:
    """Type, message and place of an exception, on one line."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _OURS.search(frame.filename)]
    where = f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}: {error}{where}"
