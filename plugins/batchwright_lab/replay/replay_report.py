"""Changes between a recorded run and its replay: by request, and in sum."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright_plugins.metrics import mean, percentile

if TYPE_CHECKING:
    from rich.console import Console

    from batchwright_lab.recording.recording import RecordedRequest, Recording
    from batchwright_lab.replay.replay_pace import Difference
    from batchwright_lab.replay.replayed_run import ReplayedRun

__all__ = ["Change", "Changes", "print_replay"]

_COLUMNS: Final = (
    "ttft",
    "e2e",
    "num_preemptions",
    "num_cached_tokens",
    "num_recomputed_tokens",
    "num_output_tokens",
    "end",
)
_SECONDS: Final = ("ttft", "e2e")
_MOST_GROUPS: Final = 12
"""Most clients or classes that are listed one by one."""
_SAME: Final = 1e-6
"""Seconds up to which a request neither gains nor loses."""


@frozen
class Change:
    """One request in both runs.

    Args:
        before: As recorded.
        after: As replayed; None: it was not added there.
    """

    before: RecordedRequest
    after: RecordedRequest | None

    @property
    def gain(self) -> float | None:
        """Seconds that it ended earlier, or None if it did not end in both by itself."""
        if self.after is None or self.before.e2e is None or self.after.e2e is None:
            return None
        return self.before.e2e - self.after.e2e

    @property
    def verdict(self) -> str:
        """``gained``, ``lost``, ``same``, or empty if it did not end in both."""
        if self.gain is None:
            return ""
        if abs(self.gain) <= _SAME:
            return "same"
        return "gained" if self.gain > 0 else "lost"


class Changes:
    """All requests in both runs, in the order in which they arrived.

    Args:
        before: The recorded run.
        after: Its replay.
    """

    def __init__(self, before: Recording, after: Recording) -> None:
        self.before, self.after = before, after
        found = dict(_numbered(after))
        self.requests = [Change(request, found.get(key)) for key, request in _numbered(before)]

    def gains(self) -> list[Change]:
        """Requests that ended in both, the largest gain first."""
        ended = [change for change in self.requests if change.gain is not None]
        return sorted(ended, key=lambda change: -(change.gain or 0.0))

    def failures(self) -> list[str]:
        """Reasons of those that end in an error now, and did not before."""
        pairs = ((change.before, change.after) for change in self.requests)
        return [now.detail for old, now in pairs if now and now.end == "error" != old.end]

    @property
    def have_lost_all(self) -> bool:
        """True if requests have ended by themselves before, and none has now."""
        served = [change.after for change in self.requests if change.before.e2e is not None]
        return bool(served) and all(now is None or now.e2e is None for now in served)

    def write(self, path: Path) -> None:
        """Write a CSV file with a line a request; seconds and tokens, empty for none."""
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            names = [
                f"{_heading(name)}_{when}" for name in _COLUMNS for when in ("before", "after")
            ]
            writer.writerow(["request_id", "client", "slo_class", "arrival_s", *names, "verdict"])
            for change in self.requests:
                before = change.before
                values = [
                    getattr(request, name, None)
                    for name in _COLUMNS
                    for request in (before, change.after)
                ]
                client, slo_class = (before.fields.get(key) for key in ("client", "slo_class"))
                given = [before.request_id, client, slo_class, before.arrival_time]
                writer.writerow([*given, *values, change.verdict])


def _heading(name: str) -> str:
    return f"{name}_s" if name in _SECONDS else name.removeprefix("num_")


def _numbered(run: Recording) -> Iterator[tuple[tuple[str, int], RecordedRequest]]:
    """Requests by id, and how often that was used before."""
    seen: Counter[str] = Counter()
    for request in run.requests:
        yield (request.request_id, seen[request.request_id]), request
        seen[request.request_id] += 1


def print_replay(console: Console, run: ReplayedRun, changes: Changes, show: int) -> None:
    """Print the replay, its first difference, its changes, and gains and losses."""
    for name, value in _heads(run, changes):
        console.print(f"{name:<17}{value}", markup=False, soft_wrap=True)
    if run.pace.difference is None:
        console.print("\nEvery decision is the recorded one.")
        return
    console.print()
    for line in _tell(run.pace.difference):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    console.print(_sums(changes))
    verdicts = Counter(change.verdict for change in changes.requests)
    console.print(f"By end-to-end latency {_verdicts(verdicts)}.")
    for field in ("client", "slo_class"):
        for line in _groups(changes, field):
            console.print(line, markup=False, soft_wrap=True)
    if show and verdicts["gained"] + verdicts["lost"]:
        console.print()
        console.print(_who(changes, show))


_VERDICTS: Final = {"gained": "gained", "lost": "lost", "same": "did as before"}


def _verdicts(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {word}" for name, word in _VERDICTS.items())


def _groups(changes: Changes, field: str) -> Iterator[str]:
    """Yield the results of each client, or each class; nothing unless there are several."""
    groups: dict[str, list[Change]] = {}
    for change in changes.requests:
        groups.setdefault(str(change.before.fields.get(field, "none")), []).append(change)
    if not 1 < len(groups) <= _MOST_GROUPS:
        return
    for name, group in sorted(groups.items()):
        gain = mean([change.gain for change in group if change.gain is not None])
        told = _verdicts(Counter(change.verdict for change in group))
        yield f"  {field} {name}: {told}; mean gain {gain or 0.0:+,.3f} s"


def _heads(run: ReplayedRun, changes: Changes) -> Iterator[tuple[str, str]]:
    before, after = changes.before, changes.after
    yield "recorded", f"{run.recording.policy}: {_size(before)}"
    since = f" from step {run.from_step} on" if run.from_step else ""
    yield "replayed", f"{run.policy}{since}: {_size(after)}"
    times = f"as recorded for {run.pace.num_same:,} steps"
    if run.num_estimated:
        error = "" if run.error is None else f", off by {run.error:.1%} (median) on recorded steps"
        times += f"; then estimator {run.estimator.name!r}{error}"
    yield "step times", times
    refused = list(run.drive.refused.values())
    for what, reasons in (("refused now", refused), ("failed now", changes.failures())):
        if reasons:
            num_all = len(changes.requests)
            yield what, f"{len(reasons)} of {num_all} requests, the first: {reasons[0]}"
    if before.num_unfinished:
        yield "unfinished", f"{before.num_unfinished} requests when the log ends, and the replay"
    if run.drive.stopped_by:
        yield "stopped", run.drive.stopped_by


def _size(run: Recording) -> str:
    return f"{len(run.requests):,} requests, {len(run.times):,} steps, {run.end_time:,.2f} s"


def _tell(difference: Difference) -> Iterator[str]:
    """Both decisions of the first step that differs, side by side."""
    yield f"First difference: step {difference.step}, at {difference.time:,.3f} s."
    now, before = difference.replayed, difference.recorded
    names = ("recorded", "replayed")
    if before is None:
        yield "  recorded  had no such step"
        return
    for name, told in zip(names, (before.told(now), now.told(before)), strict=True):
        for index, text in enumerate(told):
            yield f"  {name if not index else '':<10}{text}"


def _sums(changes: Changes) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("recorded", "replayed", "change"):
        table.add_column(heading, justify="right")
    for name, condense in _latencies():
        for title, attribute in (("TTFT", "ttft"), ("E2E", "e2e")):
            pair = [condense(_values(run, attribute)) for run in (changes.before, changes.after)]
            table.add_row(f"{title} {name}", *map(_seconds, pair), _change(*pair))
    for title, attribute in _COUNTS.items():
        counts = [_total(run, attribute) for run in (changes.before, changes.after)]
        table.add_row(title, *(f"{count:,}" for count in counts), f"{counts[1] - counts[0]:+,}")
    return table


_COUNTS: Final = {
    "preemptions": "num_preemptions",
    "recomputed tokens": "num_recomputed_tokens",
    "prefix hits (tokens)": "num_cached_tokens",
}


def _latencies() -> Iterator[tuple[str, Callable[[list[float]], float | None]]]:
    yield "mean", mean
    yield "p50", partial(percentile, share=50)
    yield "p99", partial(percentile, share=99)


def _values(run: Recording, attribute: str) -> list[float]:
    values = (getattr(request, attribute) for request in run.requests)
    return sorted(value for value in values if value is not None)


def _total(run: Recording, attribute: str) -> int:
    return sum(getattr(request, attribute) for request in run.requests)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f} s"


def _change(before: float | None, after: float | None) -> str:
    return "" if not before or after is None else f"{after / before - 1:+.1%}"


def _who(changes: Changes, show: int) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("request")
    headings = ("prompt", "output", "TTFT", "E2E", "gains", "preemptions", "hits")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    gains = changes.gains()
    first = [change for change in gains[:show] if change.verdict == "gained"]
    last = [change for change in gains[-show:] if change.verdict == "lost" and change not in first]
    for change in (*first, *last):
        before, after = change.before, change.after
        assert after is not None, "it has ended in both"
        table.add_row(
            before.request_id,
            f"{before.num_prompt_tokens:,}",
            f"{before.num_output_tokens or 0:,}",
            f"{_seconds(before.ttft)} > {_seconds(after.ttft)}",
            f"{_seconds(before.e2e)} > {_seconds(after.e2e)}",
            f"{change.gain or 0.0:+,.3f} s",
            f"{before.num_preemptions} > {after.num_preemptions}",
            f"{before.num_cached_tokens} > {after.num_cached_tokens}",
        )
    return table
