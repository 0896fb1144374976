"""``batchwright explain``: why requests wait, and what became of one, from a decision log."""

from __future__ import annotations

from collections import deque
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from batchwright.plugin import Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ExplainCommand"]


class ExplainCommand(Command):
    """The story of a request, or why each waiting request waits, from a decision log.

    The log is written by the observer ``decision-log``; it may still be growing.
    """

    name = "explain"
    help = "Explain from a decision log why requests wait, and how one ended."

    def build(self) -> click.Command:
        return _explain


@click.command("explain")
@click.argument("request_id", metavar="REQUEST", required=False)
@click.option(
    "--waiting", is_flag=True, help="Explain every request that waits at the log's last step."
)
@click.option(
    "--log",
    "path",
    type=click.Path(path_type=Path),
    default=Path("decisions.jsonl"),
    show_default=True,
    help="Decision log, as the observer decision-log writes it.",
)
def _explain(request_id: str | None, path: Path, *, waiting: bool) -> None:
    """Print the story of REQUEST: its waits and their reasons, its tokens, preemptions and end."""
    if waiting == (request_id is not None):
        raise click.UsageError("give either REQUEST or --waiting")
    lines = _waiting(path) if request_id is None else _story(path, request_id)
    for line in list(lines):
        click.echo(line)


def _story(path: Path, request_id: str) -> Iterator[str]:
    from batchwright.exceptions import ConfigError
    from batchwright.suggest import did_you_mean
    from batchwright_lab.recording.log_file import follow_log
    from batchwright_lab.recording.story import Story

    story, ids = Story(request_id), dict[str, None]()
    for trail in follow_log(path):
        story.read(trail)
        ids |= dict.fromkeys(trail.added)
    if not story.is_known:
        hint = did_you_mean(request_id, ids) or _some(ids)
        problem = f"there is no request {request_id!r} among its {len(ids)}.{hint}"
        raise ConfigError(problem, source=str(path))
    yield f"request {request_id!r}"
    yield from story.lines()


def _some(ids: Iterable[str]) -> str:
    first = ", ".join(repr(request_id) for request_id in islice(ids, 3))
    return f" The first of them: {first}" if first else ""


def _waiting(path: Path) -> Iterator[str]:
    from batchwright_engine.text_table import aligned
    from batchwright_lab.recording.log_file import follow_log

    (trail,) = deque(follow_log(path), maxlen=1) or (None,)
    if trail is None or trail.step is None:
        yield "no step was made yet"
        return
    num_running, num_waiting = len(trail.running), len(trail.waiting)
    yield f"step {trail.step}, {trail.time:g} s: {num_running} run, {num_waiting} wait"
    yield from aligned((request_id, trail.why(request_id)) for request_id in trail.waiting)
