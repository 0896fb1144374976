"""``batchwright bench``: how fast a configuration answers a file of prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

if TYPE_CHECKING:
    from batchwright.config import Config

__all__ = ["BenchCommand"]


class BenchCommand(Command):
    """Measure how fast a configuration answers prompts, and where the time goes."""

    name = "bench"
    help = "Measure how fast a file of prompts is answered."

    def build(self) -> click.Command:
        return _bench


@click.command("bench")
@click.argument("file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    help="File of prompts, as for `batchwright run`; '-' reads standard input. "
    "Default: run.prompts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@override_option
def _bench(file: Path, prompts: Path | None, as_json: bool, overrides: tuple[str, ...]) -> None:
    """Answer a file of prompts twice: to warm up, then measured.

    The prefix cache is used within a run; the second run finds no blocks of the first one. All
    prompts are submitted at once, so that the time to first token includes the wait for a seat.

    The exit code is 1 if no prompt was answered or one ended in an error, 2 if the input is
    wrong, 130 after Ctrl-C.
    """
    from batchwright.config import load_config
    from batchwright_engine.text_table import aligned

    figures = _measure(load_config(file, overrides), prompts)
    if as_json:
        click.echo(json.dumps(figures))
    else:
        for line in aligned(_rows(figures)):
            click.echo(line)
    if figures["failed"] == figures["requests"]:
        raise click.ClickException(f"no prompt was answered: {figures['first_failure']}")
    if figures["errors"]:
        raise SystemExit(1)


def _measure(config: Config, given: Path | None) -> dict[str, Any]:
    from batchwright_engine.answering.measurement import measure
    from batchwright_engine.answering.prompt_file import prompts_of, read_prompts, reading
    from batchwright_engine.answering.report import start_lines
    from batchwright_engine.assembly import EngineAssembly
    from batchwright_engine.sections import RunSection

    source = prompts_of(config, given)
    lines = read_prompts(source, config.sampling)
    engine = EngineAssembly(reading(config, source)).engine()
    try:
        for text in start_lines(engine, len(lines)):
            click.echo(text, err=True)
        return measure(engine, lines, config.section(RunSection))
    finally:
        engine.close()


def _rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    limits = figures["limits"]
    rows = [
        ("requests", f"{figures['requests'] - figures['failed']} of {figures['requests']}"),
        *(("first failure", figures["first_failure"]) for _ in range(min(1, figures["failed"]))),
        ("time", f"{figures['seconds']:.2f} s in {figures['steps']} steps"),
        ("CPU time", f"{figures['cpu_seconds']:.2f} s, all threads together"),
        ("output tokens/s", f"{figures['output_tokens_per_second']:,.1f}"),
        ("total tokens/s", f"{figures['total_tokens_per_second']:,.1f}"),
        ("time to first token", _percentiles(figures["ttft"])),
        ("time per output token", _percentiles(figures["tpot"])),
        *(
            (f"share of {name.replace('_', ' ')}", f"{share:.2%}")
            for name, share in figures["shares"].items()
        ),
    ]
    if "products_seconds" in limits:
        products = limits["products_seconds"]
        rows.append(("matrix products alone", f"{products * 1e3:.2f} ms for {limits['rows']} rows"))
    if "plain_products_seconds" in limits:
        plain = limits["plain_products_seconds"]
        rows.append(("as torch multiplies", f"{plain * 1e3:.2f} ms"))
    if "memory_bytes_per_second" in limits:
        rows.append(("memory bandwidth", f"{limits['memory_bytes_per_second'] / 1e9:.1f} GB/s"))
    return rows


def _percentiles(values: dict[str, float | None]) -> str:
    shown = (f"{name} {v * 1e3:,.2f} ms" for name, v in values.items() if v is not None)
    return ", ".join(shown) or "none"
