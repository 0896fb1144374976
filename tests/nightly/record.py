"""Run the nightly tests and write down how they went: ``make nightly``.

The result, ``results.json`` beside this file, is committed once for each larger change.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


class Outcomes:
    """A pytest plugin that collects how each test ended, and after how many seconds."""

    def __init__(self) -> None:
        self.by_test: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of a test: a phase that fails counts, whatever follows."""
        found = self.by_test.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        found["seconds"] = round(found["seconds"] + report.duration, 1)
        if report.outcome != "passed":
            found["outcome"] = report.outcome

    def record(self, commit: str, seconds: float) -> dict[str, Any]:
        """Everything that is written down."""
        outcomes = [found["outcome"] for found in self.by_test.values()]
        return {
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "commit": commit,
            "tests": len(outcomes),
            "passed": outcomes.count("passed"),
            "seconds": round(seconds, 1),
            "by_test": self.by_test,
        }


def commit_of(folder: Path) -> str:
    """The commit that a checkout is at, with ``-dirty`` if a file of it was changed."""
    git = [
        "git",
        "-C",
        str(folder),
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(arguments: Sequence[str], output: Path = HERE / "results.json") -> int:
    """Run the tests; the exit code is pytest's."""
    commit = commit_of(HERE)
    outcomes, begin = Outcomes(), time.perf_counter()
    code = pytest.main(["-m", "nightly", *arguments], plugins=[outcomes])
    record = outcomes.record(commit, time.perf_counter() - begin)
    output.write_text(f"{json.dumps(record, indent=2)}\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
