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
def _plugins(file: Path | None, *, as_json: bool) -> None:
    """List installed components, their options, and broken plugins."""
    from batchwright.config import load_config
    from batchwright.plugin_manager import PluginManager

    config = load_config(file)
    plugins = PluginManager.discover(
        config.plugin_paths, config.plugins.disable, refuse_broken=False
    )
    if as_json:
        click.echo(json.dumps(_as_dict(plugins), indent=2))
    else:
        _print_tables(plugins)


def _as_dict(plugins: PluginManager) -> dict[str, Any]:
    return {
        "components": [
            {
                **_origin(registration),
                "kind": registration.kind,
                "name": registration.name,
                "class": registration.cls.__qualname__,
                "options": _options(registration),
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


def _print_tables(plugins: PluginManager) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table("kind", "name", "distribution", "options and defaults")
    for registration in plugins.registrations():
        options = (f"{o['name']} = {o['default'] or 'none'}" for o in _options(registration))
        source = registration.distribution_label or str(registration.path or registration.module)
        cells = (registration.kind, registration.name, source, "\n".join(options))
        table.add_row(*map(Text, cells))
    console.print(table)
    if plugins.broken:
        console.print(Text(f"{len(plugins.broken)} faults in plugins:", style="bold red"))
    for fault in plugins.broken:
        console.print(Text(f"- {fault.error()}"))
