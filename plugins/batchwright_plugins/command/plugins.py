"""``batchwright plugins``: lists what is offered, and what is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchwright import Command

if TYPE_CHECKING:
    from batchwright.plugin_manager import PluginManager
    from batchwright.registration import Origin, Registration

__all__ = ["PluginsCommand"]


class PluginsCommand(Command):
    """Lists components by kind and name, with where they come from and their options."""

    name = "plugins"
    help = "List installed components, their options, and broken plugins."

    def build(self) -> click.Command:
        return _plugins


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="Load the single-file plugins of this TOML file too, and heed its disable.",
)
@click.option("--host", type=click.Choice(["engine", "simulator"]), help="Say what it honours.")
def _plugins(file: Path | None, host: str | None, *, as_json: bool) -> None:
    """List installed components, their options, and broken plugins."""
    from batchwright.config import load_config
    from batchwright.plugin_manager import PluginManager

    config = load_config(file)
    plugins = PluginManager.discover(
        config.plugin_paths, config.plugins.disable, refuse_broken=False
    )
    if as_json:
        click.echo(json.dumps(_as_dict(plugins, host), indent=2))
    else:
        _print_tables(plugins, host)


def _as_dict(plugins: PluginManager, host: str | None) -> dict[str, Any]:
    return {
        "components": [
            {
                **_origin(registration),
                "kind": registration.kind,
                "name": registration.name,
                "class": registration.cls.__qualname__,
                "options": _options(registration),
                **({"capabilities": _support(registration, host)} if host else {}),
            }
            for registration in plugins.registrations()
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
    from batchwright_plugins.command.option_docs import document_options

    docs = document_options(getattr(registration.cls, "Options", None))
    return [
        {"name": doc.name, "type": doc.type, "default": doc.default_toml, "help": doc.help}
        for doc in docs
    ]


def _support(registration: Registration, host: str) -> dict[str, dict[str, str]]:
    """By capability, how a host honours it, and why not exactly."""
    from batchwright.hosts import capabilities, support

    answers = {name: support(host, name) for name in capabilities(registration)}
    return {name: {"level": s.level, "why": s.why} for name, s in answers.items()}


def _print_tables(plugins: PluginManager, host: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table()
    for column in ("kind", "name"):
        table.add_column(column, no_wrap=True)
    table.add_column("from", overflow="fold")
    last = f"what the {host} honours" if host else "options and defaults"
    table.add_column(last, overflow="fold")
    for registration in plugins.registrations():
        if host:
            honoured = _support(registration, host).items()
            lacking = [f"{n}: {s['level']}, {s['why']}" for n, s in honoured if s["why"]]
            said = "\n".join(lacking) or "everything"
        else:
            options = _options(registration)
            said = "\n".join(f"{o['name']} = {o['default'] or 'none'}" for o in options)
        cells = (registration.kind, registration.name, _source(registration), said)
        table.add_row(*map(Text, cells))
    console.print(table)
    if plugins.broken:
        faults = "1 fault" if len(plugins.broken) == 1 else f"{len(plugins.broken)} faults"
        console.print(Text(f"{faults} in plugins:", style="bold red"))
    for fault in plugins.broken:
        console.print(Text(f"- {fault.error()}"), soft_wrap=True)


def _source(registration: Registration) -> str:
    """The distribution that a component is from, or the file: from here on if it is below."""
    path, here = registration.path, Path.cwd()
    if registration.distribution_label or path is None:
        return registration.distribution_label or registration.module
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
