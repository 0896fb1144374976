"""``batchwright calibrate``: measures how long steps take on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

__all__ = ["CalibrateCommand"]


class CalibrateCommand(Command):
    """Fits an estimator to the engine that a TOML file describes, for simulations of it."""

    name = "calibrate"
    help = "Measure step times of an engine, for simulations of it."

    def build(self) -> click.Command:
        return _calibrate


@click.command("calibrate")
@click.argument("file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--log",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A decision log of the engine; without it the engine runs on prompts made for this.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What is written. Default: measured.toml beside CONFIG.",
)
@override_option
def _calibrate(
    file: Path, log: Path | None, output: Path | None, overrides: tuple[str, ...]
) -> None:
    """Measure how long the steps of CONFIG's engine take, and fit coefficients to it.

    The estimator "measured" reads what is written: simulate with
    -o simulation.estimator=measured. Prompts of many lengths are answered, alone and in
    company, while every step is logged; --log takes a decision log of an earlier run
    instead.
    """
    from batchwright.config import load_config
    from batchwright_engine.output_file import keep_apart, write_text
    from batchwright_lab.calibration.calibration import calibrate, measure
    from batchwright_plugins.files import files_taken

    config = load_config(file, overrides)
    output = output or file.parent / "measured.toml"
    logs = [] if log is None else [("the decision log, which is read", log)]
    keep_apart([*files_taken(config), *logs], output)
    found = calibrate(log) if log is not None else measure(config)
    write_text(output, found.as_toml())
    for name, value in found.rows():
        click.echo(f"{name:<23}{value}")
    click.echo(f"written to {output}")
