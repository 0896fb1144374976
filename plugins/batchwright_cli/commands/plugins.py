"""``batchwright plugins``: lists what is offered, and what is broken."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchwright.hookspecs import PROJECT
from batchwright.plugin import Command

if TYPE_CHECKING:
    from batchwright.plugin_manager import PluginManager
    from batchwright.registration import Origin, Registration

__all__ = ["PluginsCommand"]


class PluginsCommand(Command):
    """List components by kind and name, with where they come from and their options."""

    name = "plugins"
    help = "List installed components, their options, and broken plugins."

    def build(self) -> click.Command:
        return _plugins


@click.command("plugins")
@click.argument("kind", required=False)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="TOML file whose single-file plugins are loaded, too, and whose disable is obeyed.",
)
@click.option(
    "--runtime",
    help="Runtime whose supported capabilities are listed: engine, simulator, or an installed one.",
)
def _plugins(
    kind: str | None, name: str | None, file: Path | None, runtime: str | None, *, as_json: bool
) -> None:
    """List installed components, those of a KIND, or one with all its options; broken plugins."""
    from batchwright.config import load_config
    from batchwright.plugin_manager import PluginManager

    _check_runtime(runtime)
    config = load_config(file)
    plugins = PluginManager.discover(
        config.plugin_paths, config.plugins.disable, refuse_broken=False
    )
    found = _chosen(plugins, kind, name)
    if as_json:
        click.echo(json.dumps(_as_dict(found, plugins, runtime), indent=2))
        return
    for line in _details(found[0], runtime) if name else _lines(found, runtime):
        click.echo(line)
    for line in _faults(plugins):
        click.echo(line)


def _check_runtime(name: str | None) -> None:
    """Check the name of a runtime.

    Raises:
        UsageError: No such runtime is installed.
    """
    from batchwright.suggest import did_you_mean
    from batchwright_engine.runtimes import runtimes

    if name is not None and name not in runtimes():
        names = sorted(runtimes())
        hint = f"{did_you_mean(name, names)} Runtimes: {', '.join(names)}"
        raise click.UsageError(f"there is no runtime {name!r}.{hint}")


def _chosen(plugins: PluginManager, kind: str | None, name: str | None) -> list[Registration]:
    """The components that are asked for.

    Raises:
        UsageError: There is no such kind.
        PluginError: There is no such component.
    """
    from batchwright.hookspecs import COMPONENT_KINDS
    from batchwright.suggest import did_you_mean

    if kind is not None and kind not in COMPONENT_KINDS:
        kinds = sorted(COMPONENT_KINDS)
        hint = f"{did_you_mean(kind, kinds)} Kinds: {', '.join(kinds)}"
        raise click.UsageError(f"there is no kind {kind!r}.{hint}")
    if kind is not None and name is not None:
        return [plugins.find(kind, name)]
    return plugins.registrations(kind)


def _as_dict(
    found: list[Registration], plugins: PluginManager, runtime: str | None
) -> dict[str, Any]:
    return {
        "components": [
            {
                **_origin(registration),
                "kind": registration.kind,
                "name": registration.name,
                "class": registration.cls.__qualname__,
                "options": _options(registration),
                **({"capabilities": _support(registration, runtime)} if runtime else {}),
            }
            for registration in found
        ],
        "broken": [
            {**_origin(fault), "where": fault.where, "message": fault.message}
            for fault in plugins.broken
        ],
    }


def _origin(origin: Origin) -> dict[str, Any]:
    return {
        "plugin": origin.plugin,
        "module": origin.module,
        "distribution": origin.distribution or None,
        "version": origin.version or None,
        "path": str(origin.path) if origin.path else None,
    }


def _options(registration: Registration) -> list[dict[str, Any]]:
    from batchwright_lab.configuration.option_docs import document_options

    docs = document_options(getattr(registration.cls, "Options", None))
    return [
        {"name": doc.name, "type": doc.type, "default": doc.default_toml, "help": doc.help}
        for doc in docs
    ]


def _support(registration: Registration, runtime: str) -> dict[str, dict[str, str]]:
    """By capability, how a runtime honours it, and why not exactly."""
    from batchwright_engine.runtimes import capabilities, support

    answers = {name: support(runtime, name) for name in capabilities(registration)}
    return {name: {"level": s.level, "why": s.why} for name, s in answers.items()}


def _lines(found: list[Registration], runtime: str | None) -> Iterator[str]:
    """A line a component, under its kind; below it what a runtime does not honour."""
    from batchwright_engine.text_table import aligned

    rows = ((registration.name, _told(registration)) for registration in found)
    kind = ""
    for registration, line in zip(found, aligned(rows, indent="  "), strict=True):
        if registration.kind != kind:
            kind = registration.kind
            yield kind
        yield line
        yield from (f"    {lack}" for lack in _lacking(registration, runtime))


def _told(registration: Registration) -> str:
    """A sentence about a component, and its distribution if that is not ours."""
    source = "" if registration.distribution == PROJECT else f" ({_source(registration)})"
    return f"{_sentence(registration)}{source}"


def _details(registration: Registration, runtime: str | None) -> Iterator[str]:
    """All about one component."""
    yield f"{registration.kind} {registration.name}, from {_source(registration)}"
    described = inspect.cleandoc(registration.cls.__doc__ or "")
    yield from ["", *described.splitlines()] if described else ()
    options = _options(registration)
    yield from ["", "Options:"] if options else ()
    for option in options:
        yield f"  {option['name']} = {option['default'] or 'none'}  ({option['type']})"
        yield f"      {option['help']}"
    yield from _lacking(registration, runtime)


def _lacking(registration: Registration, runtime: str | None) -> Iterator[str]:
    """Yield the capabilities that a runtime does not support exactly."""
    for name, support in _support(registration, runtime).items() if runtime else ():
        if support["why"]:
            yield f"{name}: {support['level']}, {support['why']}"


def _sentence(registration: Registration) -> str:
    """The first sentence of a component's description."""
    paragraph = inspect.cleandoc(registration.cls.__doc__ or "").partition("\n\n")[0]
    return re.split(r"(?<=\.) ", " ".join(paragraph.split()), maxsplit=1)[0]


def _faults(plugins: PluginManager) -> Iterator[str]:
    if plugins.broken:
        number = len(plugins.broken)
        yield ""
        yield f"{number} fault{'s' * (number > 1)} in plugins:"
    yield from (f"- {fault.error()}" for fault in plugins.broken)


def _source(registration: Registration) -> str:
    """The distribution that a component is from, or the file: from here on if it is below."""
    path, here = registration.path, Path.cwd()
    if registration.distribution_label or path is None:
        return registration.distribution_label or registration.module
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
