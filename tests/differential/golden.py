"""Recorded runs of vLLM's scheduler: a workload, then one line a step."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from differential.ours import Ours
from differential.play import Step, play
from differential.workload import Workload

__all__ = ["FOLDER", "Golden", "replayed", "stored"]

FOLDER = Path(__file__).parent / "golden"
MARK = "steps:"


@frozen
class Golden:
    """A workload and what vLLM decided.

    Args:
        workload: What was played.
        steps: Its steps as text, without their numbers.
    """

    workload: Workload
    steps: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.workload.family}-{self.workload.seed}"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.txt"

    def write(self) -> None:
        lines = [self.workload.dumps(), MARK, *_folded(self.steps)]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Golden:
        head, _, tail = path.read_text(encoding="utf-8").partition(f"\n{MARK}\n")
        return cls(Workload.loads(head), tuple(_unfolded(tail.splitlines())))

    @classmethod
    def of(cls, workload: Workload, steps: list[Step]) -> Golden:
        return cls(workload, lines_of(steps))


def lines_of(steps: list[Step]) -> tuple[str, ...]:
    """Steps as text without their numbers: in a steady decode they are all alike."""
    return tuple(str(step).partition(" ")[2] for step in steps)


def stored() -> list[Path]:
    """Files of all recorded runs."""
    return sorted(FOLDER.glob("*.txt"))


def replayed(golden: Golden) -> tuple[str, ...]:
    """The same workload on Batchwright's scheduler."""
    workload = golden.workload
    steps = play(workload, Ours(workload.setup), max_steps=len(golden.steps) + 1)
    return lines_of(steps)


def _folded(lines: tuple[str, ...]) -> list[str]:
    """Equal lines in a row as one, with their number."""
    runs: list[tuple[str, int]] = []
    for line in lines:
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    return [line if count == 1 else f"{count} x {line}" for line, count in runs]


def _unfolded(lines: list[str]) -> list[str]:
    whole = []
    for line in lines:
        count, times, rest = line.partition(" x ")
        whole += [rest] * int(count) if times else [line]
    return whole
