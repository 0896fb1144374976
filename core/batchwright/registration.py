"""What plugins offer: one Registration a component, one BrokenPlugin a fault."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs
from attrs import frozen

from batchwright import hookspecs
from batchwright.exceptions import PluginError

_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")


@frozen(kw_only=True)
class Origin:
    """Where a plugin comes from.

    Args:
        plugin: What ``plugins.disable`` calls it.
        module: Dotted name of the module that holds its hooks.
        distribution: Name of the distribution that ships it; empty for a single file.
        version: Version of the distribution.
        path: The file, for a plugin loaded by ``plugins.load``.
        explicit: Whether it was asked for by file or by object, not merely found.
    """

    plugin: str
    module: str
    distribution: str = ""
    version: str = ""
    path: Path | None = None
    explicit: bool = False

    def __str__(self) -> str:
        return f"{self.path or self.module} ({self.distribution_label or 'no distribution'})"

    @property
    def distribution_label(self) -> str:
        """``name version``, or an empty string."""
        return f"{self.distribution} {self.version}".strip()

    def offer(self, kind: str, cls: type[Any]) -> Registration:
        """Record a component of this plugin."""
        return Registration(**self._fields, kind=kind, name=cls.name, cls=cls)

    def fault(
        self, message: str, *, where: str = "", kind: str = "", name: str = ""
    ) -> BrokenPlugin:
        """Record that something of this plugin cannot be used, and why.

        Args:
            message: What happened, what was expected, what to do.
            where: The hook or class at fault.
            kind: The kind of component that is missing now, if known.
            name: The component that is missing now, if known.
        """
        return BrokenPlugin(**self._fields, message=message, where=where, kind=kind, name=name)

    @property
    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in attrs.fields(Origin)}


@frozen(kw_only=True)
class Registration(Origin):
    """A component that the TOML can select, and the plugin that it comes from.

    Args:
        kind: E.g. ``policy``.
        name: What the TOML calls it.
        cls: Its class: a ``Component``, or a ``Command``.
    """

    kind: str
    name: str
    cls: type[Any]


@frozen(kw_only=True)
class BrokenPlugin(Origin):
    """Something of a plugin that cannot be used, and why; see ``Origin.fault``."""

    message: str
    where: str = ""
    kind: str = ""
    name: str = ""

    def error(self) -> PluginError:
        """Build the exception that says all this."""
        return PluginError(
            f"{self.message} [{self.path or self.module}]",
            plugin=self.plugin,
            distribution=self.distribution_label,
            where=self.where,
        )

    def may_have_offered(self, kind: str, name: str) -> bool:
        """Whether this fault could be why a component is missing."""
        return self.kind in ("", kind) and self.name in ("", name)


@cache
def component_kinds() -> dict[str, type[Any]]:
    """Kinds of components with their base classes, as the hookspecs declare them."""
    return {
        name.removeprefix(hookspecs.HOOK_PREFIX): _offered_type(spec)
        for name, spec in vars(hookspecs).items()
        if name.startswith(hookspecs.HOOK_PREFIX)
    }


def _offered_type(spec: Any) -> type[Any]:
    (sequence_item,) = get_args(get_type_hints(spec)["return"])
    (base,) = get_args(sequence_item)
    return base  # type: ignore[no-any-return]


def class_problem(kind: str, offered: object) -> str | None:
    """Say why an object that a hook returned is no component of a kind; None if it is."""
    base = component_kinds()[kind]
    if not isinstance(offered, type):
        return f"returned {offered!r}; expected a class derived from {base.__name__}"
    if not issubclass(offered, base):
        return f"{offered.__name__} is not derived from {base.__name__}; derive it"
    return next(_problems(offered, base), None)


def _problems(cls: type[Any], base: type[Any]) -> Iterator[str]:
    if not isinstance(cls.name, str) or not cls.name:
        yield f'{cls.__name__} has no name; add: name = "..."'
    elif not _NAME.fullmatch(cls.name):
        yield (
            f"{cls.__name__}.name is {cls.name!r}; expected lower-case letters and digits, "
            "in words joined by '-'"
        )
    if hasattr(cls, "Options"):
        yield from _options_problems(f"{cls.__name__}.Options", cls.Options)
    missing = [
        name
        for name in dir(cls)
        if getattr(inspect.getattr_static(cls, name), "__isabstractmethod__", False)
    ]
    if missing:
        yield f"{cls.__name__} lacks {', '.join(missing)}, which {base.__name__} asks for"
    for name, declared in inspect.getmembers(base, inspect.isfunction):
        defined = inspect.getattr_static(cls, name)
        if not name.startswith("_") and inspect.isfunction(defined) and defined is not declared:
            yield from _signature_problems(cls, declared, defined)


def _options_problems(where: str, options: Any) -> Iterator[str]:
    if not attrs.has(options):
        yield f"{where} is {options!r}; expected an attrs class (use @attrs.frozen)"
        return
    try:
        attrs.resolve_types(options)
    except NameError as error:
        yield f"{where}: {error}; annotations need imports outside of TYPE_CHECKING"


def _signature_problems(cls: type[Any], declared: Any, defined: Any) -> Iterator[str]:
    signature = inspect.signature(declared)
    parameters = signature.parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
    where = f"{cls.__name__}.{declared.__name__}"
    try:
        inspect.signature(defined).bind(*positional, **keywords)
    except TypeError:
        yield (
            f"{where} takes ({', '.join(inspect.signature(defined).parameters)}); "
            f"it is called as ({', '.join(signature.parameters)})"
        )
    if inspect.iscoroutinefunction(defined) and not inspect.iscoroutinefunction(declared):
        yield f"{where} is async; it is called without await: make it a plain function"
