"""``batchwright config``: shows and checks configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

if TYPE_CHECKING:
    from batchwright.config import Config

__all__ = ["ConfigCommand"]


class ConfigCommand(Command):
    """Show or check a configuration, or show all options."""

    name = "config"
    help = "Show or check a configuration."

    def build(self) -> click.Command:
        return click.Group("config", commands=[_show, _check], help=self.help)


@click.command("show")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--defaults", is_flag=True, help="Write all options, with documentation.")
@override_option
def _show(file: Path | None, *, defaults: bool, overrides: tuple[str, ...]) -> None:
    """Write FILE with every value that is in effect; without FILE, the defaults."""
    from batchwright.config import load_config
    from batchwright.plugin_manager import PluginManager
    from batchwright_lab.configuration.defaults import render_defaults, with_component_defaults
    from batchwright_lab.configuration.rendering import encodable, render_config

    if defaults and (file is not None or overrides):
        raise click.UsageError("--defaults takes neither FILE nor -o")
    config = load_config(file, overrides)
    plugins = PluginManager.discover(
        config.plugin_paths, config.plugins.disable, refuse_broken=False
    )
    text = (
        render_defaults(plugins.registrations())
        if defaults
        else render_config(with_component_defaults(config, plugins))
    )
    click.echo(encodable(text), nl=False)


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@override_option
def _check(file: Path, overrides: tuple[str, ...]) -> None:
    """Check FILE: options, plugins, combinations, files. Starts nothing."""
    from batchwright.config import load_config
    from batchwright_engine.answering.report import attention_line
    from batchwright_engine.assembly import EngineAssembly

    config = load_config(file, overrides)
    assembly = EngineAssembly(config)
    _check_files(config)
    model = assembly.inspect()
    chosen = ", ".join(f"{use.kind} {use.name}" for use in config.uses() if use.option)
    click.echo(f"{file}: valid ({chosen})")
    if model is not None:
        click.echo(attention_line(model))
    elif config.model.path is not None:
        click.echo("attention: not known before the model is loaded")


def _check_files(config: Config) -> None:
    """Refuse a configuration whose files are missing.

    ``model.path`` counts as a folder if it looks like a path; else it may be the name
    of an embedded model, which only the executor knows.
    """
    from batchwright_engine.sections import RunSection

    problems = []
    prompts, model = config.section(RunSection).prompts, config.model.path
    if prompts is not None and not config.resolve(prompts).is_file():
        problems.append(("run.prompts", f"there is no file {config.resolve(prompts)}"))
    if model is not None and ("/" in model or "\\" in model or model.startswith((".", "~"))):
        folder = config.resolve(model)
        if not folder.is_dir():
            problems.append(("model.path", f"there is no folder {folder}"))
    config.refuse(problems)
