"""``batchwright calibrate``: measures how long steps take on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

__all__ = ["CalibrateCommand"]


class CalibrateCommand(Command):
    """Fit an estimator to the engine that a TOML file describes, for simulations of it."""

    name = "calibrate"
    help = "Measure step times of an engine, for simulations of it."

    def build(self) -> click.Command:
        return _calibrate


@click.command("calibrate")
@click.argument("file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--log",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Decision log of the engine. Default: a run of the engine on prompts made for this.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file. Default: measured.toml beside CONFIG.",
)
@override_option
def _calibrate(
    file: Path, log: Path | None, output: Path | None, overrides: tuple[str, ...]
) -> None:
    """Measure the step times of CONFIG's engine, and fit coefficients to them.

    The estimator "measured" reads the output file: simulate with -o
    simulation.estimator=measured. Prompts of many lengths are answered, alone and together,
    while every step is logged; --log takes a decision log of an earlier run instead.
    """
    from batchwright.config import load_config
    from batchwright_engine.output_file import keep_apart, write_text
    from batchwright_engine.text_table import aligned
    from batchwright_lab.extra_packages import FIT_MODULES, missing_packages, without

    if missing := missing_packages(*FIT_MODULES):
        raise click.ClickException(without("fit", missing))
    from batchwright_lab.calibration.calibration import calibrate, measure
    from batchwright_plugins.files import files_taken

    config = load_config(file, overrides)
    output = output or file.parent / "measured.toml"
    logs = [] if log is None else [("the decision log, which is read", log)]
    keep_apart([*files_taken(config), *logs], output)
    found = calibrate(log) if log is not None else measure(config)
    write_text(output, found.as_toml())
    for line in aligned(found.rows()):
        click.echo(line)
    click.echo(f"written to {output}")
