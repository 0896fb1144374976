"""``batchwright run``: answers a file of prompts."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

if TYPE_CHECKING:
    from rich.console import Console

    from batchwright.config import Config
    from batchwright_engine.answering.batch import Batch
    from batchwright_engine.answering.result_file import Results

__all__ = ["RunCommand"]


class RunCommand(Command):
    """Answer the prompts of a file with the model that a TOML file names."""

    name = "run"
    help = "Answer a file of prompts."

    def build(self) -> click.Command:
        return _run


@click.command("run")
@click.argument("file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    help="File of prompts: one a line, or *.jsonl; '-' reads standard input. Default: run.prompts.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="JSON-lines file of results, in input order; '-' writes standard output. "
    "Default: run.output.",
)
@override_option
def _run(file: Path, prompts: Path | None, output: Path | None, overrides: tuple[str, ...]) -> None:
    """Answer a file of prompts as CONFIG says.

    A line of a *.jsonl file is an object with "prompt", "messages" or "prompt_token_ids". It
    may have sampling parameters (at top level or under "sampling"), an id, priority, client,
    group, slo_class, deadline (seconds), hints and cache_salt.

    Each result is kept as soon as its request ends, so that an interrupted run has the finished
    results. If the file of results exists already, they stay in FILE.part. The exit code is 1
    if no prompt was answered or one ended in an error (the table has the refused ones), 2 if
    the input is wrong, 130 after Ctrl-C, 143 after SIGTERM.
    """
    from batchwright.config import load_config
    from batchwright_engine.answering.batch import ERROR
    from batchwright_engine.answering.prompt_file import prompts_of

    config = load_config(file, overrides)
    batch = _answer(config, prompts_of(config, prompts), _output(config, output))
    if batch.stopped_by is not None:
        raise SystemExit(128 + batch.stopped_by)
    if batch.num_failed == len(batch.prompts):
        raise click.ClickException(f"no prompt was answered: {batch.first_detail}")
    if batch.reasons[ERROR]:
        raise SystemExit(1)


def _output(config: Config, given: Path | None) -> Path | None:
    from batchwright_engine.sections import RunSection

    output = config.section(RunSection).output
    return given if given is not None or output is None else config.resolve(output)


def _answer(config: Config, source: Path, output: Path | None) -> Batch:
    """Check everything that can be wrong, load the model, answer."""
    from rich.console import Console

    from batchwright_engine.answering.batch import Batch
    from batchwright_engine.answering.instruments import ADDED, instrumented
    from batchwright_engine.answering.prompt_file import read_prompts, reading
    from batchwright_engine.answering.report import listed, print_report, start_lines
    from batchwright_engine.assembly import EngineAssembly
    from batchwright_engine.sections import RunSection

    notices = Console(stderr=True, highlight=False)
    lines = read_prompts(source, config.sampling)
    config = reading(config, source)
    assembly = instrumented(EngineAssembly, config, is_terminal=notices.is_terminal)
    is_piped = _is_piped(output)
    results = _results(config, output, is_piped=is_piped)
    batch = None
    try:
        engine = assembly.engine()
        for text in start_lines(engine, len(lines)):
            notices.print(text, markup=False, soft_wrap=True)
        batch = Batch(engine, lines, config.section(RunSection), results)
        try:
            batch.run()
        finally:
            engine.close()
    finally:
        _say(notices, results.close(is_complete=batch is not None and batch.is_complete))
    _say_stopped(notices, batch, results.fate)
    summaries = listed(engine.scheduler.summaries(), config, ADDED)
    print_report(notices if is_piped else Console(highlight=False), batch, summaries)
    return batch


def _is_piped(output: Path | None) -> bool:
    """Return True if results go to standard output, which must then hold nothing else."""
    from batchwright_engine.answering.prompt_file import STDIN
    from batchwright_engine.output_file import is_standard_output

    return output is not None and (str(output) == STDIN or is_standard_output(output))


def _results(config: Config, output: Path | None, *, is_piped: bool) -> Results:
    from batchwright_engine.answering.result_file import NoResults, ResultFile, ResultStream
    from batchwright_engine.output_file import is_stream, keep_apart
    from batchwright_plugins.files import files_taken

    if output is None:
        return NoResults()
    if is_piped:
        return ResultStream()
    keep_apart(files_taken(config), output)
    return ResultStream(output) if is_stream(output) else ResultFile(output)


def _say(notices: Console, text: str) -> None:
    if text:
        notices.print(text, markup=False, soft_wrap=True)


def _say_stopped(notices: Console, batch: Batch, fate: str) -> None:
    if batch.stopped_by is not None:
        name = signal.Signals(batch.stopped_by).name
        _say(
            notices,
            f"Stopped by {name}: {batch.num_finished} of {len(batch.prompts)} requests "
            f"were finished and {fate}.",
        )
