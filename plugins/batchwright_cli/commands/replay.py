"""``batchwright replay``: what another policy would have made of a recorded run."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from batchwright.plugin import Command
from batchwright_cli.options import override_option

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ReplayCommand"]


class ReplayCommand(Command):
    """Repeat the run of a decision log under another policy, and say what changes."""

    name = "replay"
    help = "Repeat a recorded run under another policy."

    def build(self) -> click.Command:
        return _replay


@click.command("replay")
@click.argument("path", metavar="LOG", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    metavar="[LABEL=]POLICY",
    help="Policy: NAME, FILE.py or FILE.py:NAME. Default: the recorded one.",
)
@click.option(
    "--from-step",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="First step that the policy decides; the recorded one decides until then. Default: 0.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="New log, with a .csv of the changes beside it. Default: beside LOG, with the policy"
    " in its name.",
)
@click.option(
    "--trust-estimator",
    is_flag=True,
    help="Estimate step times even if the estimator does not fit the recorded ones.",
)
@click.option(
    "--trust-plugins",
    is_flag=True,
    help="Run the Python files that the recorded configuration loads.",
)
@click.option(
    "--show", type=click.IntRange(min=0), default=5, help="Number of requests shown. Default: 5."
)
@override_option
def _replay(
    path: Path,
    policy: str | None,
    output: Path | None,
    overrides: tuple[str, ...],
    *,
    from_step: int,
    trust_estimator: bool,
    trust_plugins: bool,
    show: int,
) -> None:
    """Repeat the run that LOG records, under another policy, and report the changes.

    Arrivals, answers and aborts are as recorded. As long as every decision is the recorded one,
    steps take as long as they did. From the first different one on, the estimator of the
    recorded configuration gives their times (-o changes it, and any other option). Without
    --policy the recorded run is repeated, byte for byte. Python files that the recorded
    configuration loads are run only with --trust-plugins.

    The exit code is 1 if it cannot be repeated, if requests end in an error that did not before
    or none is served, 2 if the log or an option is wrong, 130 after Ctrl-C, 143 after SIGTERM.
    """
    from batchwright_engine.output_file import Staged, is_stream
    from batchwright_lab.replay.replay_report import Changes, print_replay
    from batchwright_lab.replay.replayed_run import ReplayedRun
    from batchwright_plugins.files import files_read

    label, chosen = _read_policy(policy)
    name = re.sub(r"[^\w.-]", "-", label)
    log = output or path.with_name(f"{path.stem}-{name}{path.suffix}")
    if is_stream(log):
        raise click.UsageError(f"--output {log} is no file, and is to be read back")
    staged = Staged(log, log.with_suffix(".csv"))
    part = staged.part(log)
    run = ReplayedRun(
        path,
        chosen,
        from_step=from_step,
        overrides=overrides,
        log=part,
        trusts=trust_estimator,
        trusts_plugins=trust_plugins,
    )
    reads = [("the decision log, which is read", path), *files_read(run.config)]
    with staged.held(reads, partial(click.echo, err=True)):
        run.run()
        changes = Changes(run.recording, run.written())
        changes.write(staged.part(log.with_suffix(".csv")))
        staged.is_whole = run.drive.signal is None
    print_replay(_console(), run, changes, show)
    click.echo(f"{log} and {log.with_suffix('.csv').name}, in {run.seconds:.1f} s", err=True)
    if run.drive.signal is not None:
        raise SystemExit(128 + run.drive.signal)
    if changes.failures() or changes.have_lost_all:
        raise SystemExit(1)


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120  # programs that read a pipe wrap lines as they like
    return console


def _read_policy(text: str | None) -> tuple[str, str | None]:
    """Return the name of the replay, and its policy; see ``ReplayedRun``.

    A name may be that of a policy which the recorded configuration loads, and is looked up
    later; a file is read here.

    Raises:
        ConfigError: The text has another form, or the file has not the one policy.
        PluginError: The file is broken.
    """
    from batchwright_lab.comparison.policy_choice import choose_policies

    if text is None:
        return "again", None
    label, _, what = text.rpartition("=")
    if ".py" not in what:
        return label or what, what
    (choice,) = choose_policies([text])
    return choice.label, f"{choice.name}={choice.path}"
