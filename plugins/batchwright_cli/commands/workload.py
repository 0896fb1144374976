"""``batchwright workload``: what a trace is like, before anything runs on it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

__all__ = ["WorkloadCommand"]


class WorkloadCommand(Command):
    """Look at workloads of simulations."""

    name = "workload"
    help = "Describe a trace, or generated arrivals."

    def build(self) -> click.Command:
        return _workload


@click.group("workload")
def _workload() -> None:
    """Describe a trace, or generated arrivals."""


@_workload.command("describe")
@click.argument("source", metavar="[NAME:]FILE|NAME")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with more options.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Most requests read.",
)
@click.option(
    "--block-size",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Size of a shared block (tokens).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@override_option
def _describe(
    source: str,
    config: Path | None,
    limit: int,
    block_size: int,
    as_json: bool,
    overrides: tuple[str, ...],
) -> None:
    """Say how many requests a workload has, how they arrive, how long they are, what they share.

    SOURCE is a file whose format is recognized, or the name of a workload, with its file
    if it has one: azure:FILE, poisson. Of closed loops only what arrives first is described.
    """
    from batchwright.assembly import Assembly
    from batchwright.config import load_config
    from batchwright.exceptions import ConfigError
    from batchwright_lab.workload.chosen_workload import arrivals_of, choose_workload, make_workload
    from batchwright_lab.workload.description import describe, rows

    loaded = load_config(config, overrides)
    assembly = Assembly(choose_workload(loaded, source))
    workload = make_workload(assembly)
    facts = describe(arrivals_of(workload), limit, block_size)
    if not facts["requests"]:
        raise ConfigError("holds no request that arrives", path=workload.ctx.path)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in rows(facts):
        click.echo(f"{name:<23}{value}")
