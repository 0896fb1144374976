"""``batchwright compare``: the same requests under several policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batchwright.plugin import Command
from batchwright_cli.options import PositiveNumber, override_option

__all__ = ["CompareCommand"]


class CompareCommand(Command):
    """Simulate the same requests under several policies, and report what differs."""

    name = "compare"
    help = "Compare policies in simulations, with a report."

    def build(self) -> click.Command:
        return _compare


@click.command("compare")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file. Default: the default of every option.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="[LABEL=]NAME|FILE.py[:NAME]",
    help="Policy to compare; repeatable. The first is the baseline.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY.PATH=VALUE,VALUE",
    help="Values of an option; each policy runs with each value; repeatable.",
)
@click.option(
    "--workload",
    metavar="NAME[:FILE]",
    help="Workload: azure:FILE, jsonl:FILE, poisson, ... Default: simulation.workload.",
)
@click.option("--rates", metavar="R,R,...", help="Mean arrivals a second. Default: the workload's.")
@click.option(
    "--seeds",
    "num_seeds",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of seeds, from scheduler.seed on.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Most requests of each cell.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="[CLASS:]ttft|tpot|e2e=SECONDS",
    help="Latency target in seconds, for all requests or those of an slo_class; repeatable.",
)
@click.option(
    "--rank-by",
    metavar="MEASURE",
    help="Measure that ranks the policies. Default: attainment if there are targets, else "
    "e2e_mean.",
)
@click.option(
    "--starved-after",
    type=PositiveNumber(),
    default=60.0,
    show_default=True,
    help="Longest time (seconds) for which a request may be passed over.",
)
@click.option(
    "--warmup",
    type=PositiveNumber(),
    metavar="SECONDS",
    help="Time (seconds) before which arrivals are left out of the figures. Default: none.",
)
@click.option(
    "--check", is_flag=True, help="Check every invariant at every step (tens of times slower)."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="Number of processes. Default: one a processor.",
)
@click.option(
    "--cell-timeout",
    type=PositiveNumber(),
    metavar="SECONDS",
    help="Longest wall-clock time (seconds) of a cell. Default: no bound.",
)
@click.option(
    "--png", "formats", multiple=True, flag_value="png", help="Write the figures as PNG, too."
)
@click.option(
    "--pdf", "formats", multiple=True, flag_value="pdf", help="Write the figures as PDF, too."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for report.html, the CSV files and all cells.",
)
@override_option
def _compare(**given: Any) -> None:
    """Run the same requests under several policies, and report the differences.

    Each policy is simulated with each value of the varied options, at each rate, with each
    seed: a cell. Arrivals and lengths of a seed are the same for all policies. Finished cells
    are kept in the folder. A cell is run again only if something changed that it depends on: an
    option, a file, code that they import. Ctrl-C keeps the finished cells, and reports them. A
    cell that fails, dies or takes more than --cell-timeout is named, and does not affect the
    others; those of the last two kinds are run again next time.

    The exit code is 1 if a cell has failed or served no request, or a request ended in an
    error, 2 if the input is wrong, 3 if cells took too long and all others ran, 130 after
    Ctrl-C, 143 after SIGTERM.
    """
    from batchwright_lab.comparison.comparison import Comparison

    code = Comparison(**given).run()
    if code:
        raise SystemExit(code)
