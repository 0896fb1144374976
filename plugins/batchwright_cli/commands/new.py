"""``batchwright new``: writes a distribution around a new component."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from batchwright.plugin import Command
from batchwright_cli.scaffold.scaffold import KINDS, Scaffold, name_problem

if TYPE_CHECKING:
    from batchwright.registration import Registration

__all__ = ["NewCommand"]


class NewCommand(Command):
    """Write a complete distribution: a component that works, its entry point, its test."""

    name = "new"
    help = "Write a distribution with a new component that works, and its test."

    def build(self) -> click.Command:
        return _new


@click.command("new")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder to make. Default: batchwright-NAME."
)
def _new(kind: str, name: str, output: Path | None) -> None:
    """Write a distribution with a new component of KIND, called NAME in TOML files.

    It has a small component that works, its entry point, a test of the contract of its kind,
    and a README.
    """
    problem = name_problem(name)
    if problem is not None:
        raise click.BadParameter(problem, param_hint="NAME")
    taken = _taken(kind, name)
    if taken is not None:
        raise click.BadParameter(
            f"there is a {kind} {name!r} already, of {taken}; no TOML could tell the two apart",
            param_hint="NAME",
        )
    scaffold = Scaffold(kind, name)
    folder = output or Path(scaffold.distribution)
    if folder.exists():
        raise click.BadParameter(f"{folder} exists; nothing was written", param_hint="--output")
    _write(scaffold, folder)
    click.echo(f"{folder}: try  pip install -e '{folder}[test]' && pytest {folder}")


def _taken(kind: str, name: str) -> Registration | None:
    """Return the installed distribution of that name, or None."""
    from batchwright.plugin_manager import PluginManager

    plugins = PluginManager.discover(refuse_broken=False)
    return next((r for r in plugins.registrations(kind) if r.name == name), None)


def _write(scaffold: Scaffold, folder: Path) -> None:
    """Write the files, all or nothing.

    Raises:
        ClickException: The folder cannot be written.
    """
    files = scaffold.files()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as part:
            made = Path(part) / folder.name
            for name, text in files.items():
                path = made / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
            made.rename(folder)
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be written: {error.strerror}") from error
    for name in files:
        click.echo(str(folder / name))
