"""Check and measure Batchwright on a GPU in four minutes: ``make gpu-check``.

    python3 tests/kernels/gpu_check.py

runs under any Python that has torch. Each section needs some packages, and is skipped by name
where one of them is missing. With torch and Triton alone, our kernels are compared with dense
attention, and paged decode is measured beside a plain copy.

Each section is a process of its own, so that a fault of the device ends that section alone. It
may take the time that is left, except what is kept for those behind it. The numbers are written
to out/gpu-check.json.

Exit codes: 0 if every section that ran has passed; 1 if one of them failed or ran out of time; 2
if nothing was checked, because there is no torch or no CUDA device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sections import CORE, ENGINE, SECTIONS, Section, reason_to_skip, seconds_for

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 235.0  # in all
PROBE_SECONDS = 60
VERSIONS = ("torch", "triton", "xformers", *CORE, *ENGINE, "pytest", "hypothesis")


def environment() -> dict[str, str]:
    """Variables of a section: Batchwright can be imported, and nothing is downloaded."""
    inherited = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    paths = [str(ROOT / "core"), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONWARNINGS": "ignore:Failed to initialize NumPy",
        **inherited,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
    }


def probe() -> dict[str, Any]:
    """The machine, asked in a process of its own.

    Raises:
        RuntimeError: torch cannot be used here.
    """
    command = [sys.executable, str(HERE / "machine.py")]
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=PROBE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"torch was not imported within {PROBE_SECONDS} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"torch cannot be used: {lines[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def look_around(device: str, installed: Collection[str]) -> tuple[dict[str, Any], str | None]:
    """The machine, and why nothing can be checked on it (None: something can)."""
    if "torch" not in installed:
        return {"python": sys.version.split()[0]}, "torch is not installed"
    try:
        machine = probe()
    except RuntimeError as error:
        return {"python": sys.version.split()[0]}, str(error)
    if device == "cuda" and machine["gpu"] is None:
        return machine, f"torch {machine['torch']} finds no CUDA device here"
    return machine, None


def to_skip(
    sections: Sequence[Section],
    device: str,
    installed: Collection[str],
    machine: Mapping[str, Any],
    nothing: str | None,
) -> dict[str, str]:
    """Sections that cannot run here, each with the reason."""
    numbers = machine.get("capability")
    capability = None if numbers is None else (int(numbers[0]), int(numbers[1]))
    reasons = {
        section.name: reason_to_skip(section, device, installed, sys.version_info[:2], capability)
        for section in sections
    }
    return {name: reason or nothing for name, reason in reasons.items() if reason or nothing}


def run(section: Section, device: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Run a section; the result says how it ended, and holds its numbers."""
    numbers = folder / f"{section.name}.json"
    command = [sys.executable, *section.program]
    if section.has_numbers:
        command += ["--device", device, "--json", str(numbers)]
    start = time.monotonic()
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment(), timeout=seconds).returncode
        reason = f"exit code {code}" if code else None
    except subprocess.TimeoutExpired:
        reason = f"out of time: it had {seconds:.0f} s"
    return {
        "name": section.name,
        "status": "failed" if reason else "passed",
        **({"reason": reason} if reason else {}),
        "seconds": round(time.monotonic() - start, 1),
        **({"numbers": json.loads(numbers.read_text())} if numbers.exists() else {}),
    }


def run_all(
    sections: Sequence[Section], skipped: Mapping[str, str], device: str, end: float
) -> list[dict[str, Any]]:
    """Run in order the sections that are not skipped, until a moment."""
    results: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for index, section in enumerate(sections):
            if section.name in skipped:
                reason = skipped[section.name]
                results.append({"name": section.name, "status": "skipped", "reason": reason})
            else:
                behind = [s for s in sections[index + 1 :] if s.name not in skipped]
                seconds = seconds_for(section, behind, end - time.monotonic())
                print(f"{section.name}: at most {seconds:.0f} s", flush=True)
                results.append(run(section, device, seconds, Path(folder)))
            print(line(results[-1]), flush=True)
    return results


def line(result: Mapping[str, Any]) -> str:
    """A section's status for the terminal."""
    seconds = f" in {result['seconds']:.1f} s" if "seconds" in result else ""
    reason = f": {result['reason']}" if "reason" in result else ""
    return f"{result['name']}: {result['status']}{seconds}{reason}"


def exit_code(results: Sequence[Mapping[str, Any]]) -> int:
    """The exit code that the statuses of sections make."""
    statuses = {result["status"] for result in results}
    if "failed" in statuses:
        return 1
    return 0 if "passed" in statuses else 2


def last_line(results: Sequence[Mapping[str, Any]], nothing: str | None) -> str:
    """The outcome in a sentence."""
    if exit_code(results) == 2:
        return f"gpu-check: {nothing or 'every section was skipped'}; nothing was checked"
    counts = [sum(r["status"] == word for r in results) for word in ("passed", "failed", "skipped")]
    word = "FAILED" if exit_code(results) else "passed"
    return "gpu-check: {}: {} passed, {} failed, {} skipped".format(word, *counts)


def versions() -> dict[str, str]:
    """Versions of what is installed, among what sections use."""
    found = {}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit of this checkout; ``unknown`` where git does not know it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = [section.name for section in SECTIONS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="SECTION", help=", ".join(names)
    )
    parser.add_argument(
        "--device",
        choices=["cuda", "cpu"],
        default="cuda",
        help="cpu: everything at a small size, to try this program where there is no GPU",
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time in all")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "out" / "gpu-check.json", help="file for the numbers"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options, start = parse(arguments), time.monotonic()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    sections = [section for section in SECTIONS if section.name in options.only]
    packages = set().union(*(section.packages for section in sections))
    installed = {name for name in packages if find_spec(name) is not None}
    machine, nothing = look_around(options.device, installed)
    print(json.dumps(machine), flush=True)
    skipped = to_skip(sections, options.device, installed, machine, nothing)
    results = run_all(sections, skipped, options.device, start + options.seconds)
    record = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "device": options.device,
        "machine": machine,
        "versions": versions(),
        "seconds": round(time.monotonic() - start, 1),
        "exit_code": exit_code(results),
        "sections": results,
    }
    options.json.write_text(f"{json.dumps(record, indent=2)}\n", encoding="utf-8")
    print(f"numbers: {options.json}", flush=True)
    code = exit_code(results)
    print(last_line(results, nothing), file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
