"""``batchwright simulate``: runs a workload on a virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchwright.plugin import Command
from batchwright_cli.options import PositiveNumber, override_option

if TYPE_CHECKING:
    from batchwright_lab.simulation.simulation import Simulation

__all__ = ["SimulateCommand"]


class SimulateCommand(Command):
    """Run a workload through the scheduler that serves, on a virtual clock."""

    name = "simulate"
    help = "Run a workload through the scheduler on a virtual clock."

    def build(self) -> click.Command:
        return _simulate


@click.command("simulate")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file. Default: the default of every option.",
)
@click.option(
    "--workload",
    metavar="NAME[:FILE]",
    help="Workload: azure:FILE, jsonl:FILE, poisson, ... Default: simulation.workload.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Most requests.")
@click.option("--rate", type=PositiveNumber(), help="Mean arrivals a second.")
@click.option("--scale-rate", type=PositiveNumber(), help="Factor on the rate of arrivals.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of all streams of random numbers.")
@click.option(
    "--until", type=PositiveNumber(), help="Simulated time (seconds) at which the run ends."
)
@click.option(
    "--max-queue", type=click.IntRange(min=1), help="Waiting requests above which the run ends."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for requests.csv and summary.json.",
)
@click.option("--steps", is_flag=True, help="Write the decision log steps.jsonl, too.")
@override_option
def _simulate(config: Path | None, overrides: tuple[str, ...], **given: Any) -> None:
    """Run a workload through the scheduler on a virtual clock.

    The scheduler, its policy and all other components are those that serve. The executor
    computes nothing, and the clock advances by the estimated time of each step. Equal inputs
    give equal files, except for decision_seconds_mean of summary.json, which is measured.
    Ctrl-C keeps the finished results.

    The exit code is 1 if no request was served, one ended in an error or all wait for a key for
    ever, 2 if the input is wrong, 3 if more arrived than could be served (--max-queue), 130
    after Ctrl-C, 143 after SIGTERM. A refused request is no failure: the table counts it.
    """
    from batchwright_lab.simulation.simulated_run import SimulatedRun

    run = SimulatedRun(config, overrides, **given)
    simulation = run.run()
    _exit(simulation)


def _exit(simulation: Simulation) -> None:
    from batchwright_lab.simulation.simulation import STUCK

    if simulation.signal is not None:
        raise SystemExit(128 + simulation.signal)
    if simulation.is_overloaded:
        raise SystemExit(3)
    if simulation.has_served_none:
        raise click.ClickException(f"no request was served: {simulation.first_failure}")
    if simulation.reasons["error"] or simulation.stopped_by == STUCK:
        raise SystemExit(1)
