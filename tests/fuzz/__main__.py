"""Mutates every file that a user hands in: ``make fuzz``, or a few cases in the tests.

A reader must take a file or refuse it by a BatchwrightError that names the file, and the line
where there is one; within 10 s of CPU time and 1 GiB of memory. Cases follow from target, seed
and number alone: ``python -m fuzz --target mooncake --case 17`` runs one again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from batchwright.exceptions import BatchwrightError, PluginError

from .mutations import mutate
from .targets import TARGETS, Target

_SECONDS = 10
_MEMORY = 1 << 30
_MOST_FAILURES = 5


class _Hang(BaseException):
    """A case takes too long."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise _Hang


def files_of(target: Target, seed: int, case: int) -> dict[str, bytes]:
    """The files of a case; case 0 is the sample itself."""
    chance = random.Random(f"{target.name}/{seed}/{case}")
    files = dict(target.files())
    if case:
        name = chance.choice(list(files))
        files[name] = mutate(chance, files[name], target.form_of(name))
    return files


def run_case(target: Target, folder: Path, files: dict[str, bytes]) -> tuple[str, str]:
    """Run a case: ``accepted``, ``refused`` or ``failed``, and what was said."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            target.run(folder)
    except PluginError:  # a component has raised something else
        return "failed", traceback.format_exc(limit=-6)
    except BatchwrightError as error:
        problem = target.problem(str(error))
        return ("failed", f"{problem}: {error}") if problem else ("refused", str(error))
    except _Hang:
        return "failed", f"not done after {_SECONDS} s"
    except Exception:
        return "failed", traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted", ""


def run_target(target: Target, seed: int, cases: range) -> dict[str, Any]:
    """Run many cases in this process, within its memory."""
    signal.signal(signal.SIGPROF, _alarm)
    counts = {"accepted": 0, "refused": 0, "failed": 0}
    slowest, failures = 0.0, []
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            if case % 100 == 0:
                print(f"{target.name}: {case}", file=sys.stderr)
            files = files_of(target, seed, case)
            begin = time.process_time()
            end, said = run_case(target, Path(name), files)
            slowest = max(slowest, time.process_time() - begin)
            counts[end] += 1
            if end == "failed" or (case == 0 and end != "accepted"):
                failures.append({"case": case, "said": said})
            if len(failures) >= _MOST_FAILURES:
                break
    return {"cases": sum(counts.values()), **counts, "slowest_s": round(slowest, 2),
            "failures": failures}  # fmt: skip


def run_all(targets: list[Target], seed: int, num_cases: int) -> dict[str, Any]:
    """Run targets, each in a process of its own."""
    found = {}
    for target in targets:
        command = [sys.executable, "-m", "fuzz", "--worker", "--target", target.name]
        command += ["--seed", str(seed), "--cases", str(num_cases)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"the process died ({done.returncode}) at: {done.stderr[-2000:]}"
            found[target.name] = {"failed": 1, "failures": [{"case": None, "said": said}]}
        else:
            found |= json.loads(done.stdout)
        print(f"{target.name}: {_told(found[target.name])}", flush=True)
        for failure in found[target.name]["failures"]:
            print(f"--- seed {seed}, case {failure['case']}: {failure['said']}", flush=True)
    return found


def _told(result: dict[str, Any]) -> str:
    return ", ".join(f"{value} {key}" for key, value in result.items() if key != "failures")


def main() -> int:
    """Run what the command line says; 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="cases a target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", help="only these")
    parser.add_argument("--case", type=int, help="only this one, and show the file")
    parser.add_argument("--output", type=Path, help="where to write the figures")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    targets = [t for t in TARGETS if not given.target or t.name in given.target]
    if given.case is not None:
        return _run_one(targets[0], given.seed, given.case)
    if given.worker:
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        cases = range(given.cases)
        print(json.dumps({t.name: run_target(t, given.seed, cases) for t in targets}))
        return 0
    found = run_all(targets, given.seed, given.cases)
    if given.output is not None:
        for result in found.values():
            result.pop("failures")
        head = {"date": datetime.now(UTC).date().isoformat(), "seed": given.seed}
        given.output.write_text(json.dumps({**head, "targets": found}, indent=1) + "\n")
    return int(any(result["failed"] for result in found.values()))


def _run_one(target: Target, seed: int, case: int) -> int:
    files = files_of(target, seed, case)
    for name, data in files.items():
        if data != target.files()[name]:
            print(f"{name}: {data[:3000]!r}")
    signal.signal(signal.SIGPROF, _alarm)
    with tempfile.TemporaryDirectory() as folder:
        end, said = run_case(target, Path(folder), files)
    print(f"{end}: {said}")
    return int(end == "failed")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
