"""Checks the attention backends on a GPU: ``make gpu-check``, in under four minutes.

First the suite of tests/kernels at full size, then the benchmark. Ends with 0 if both
did, 1 if a kernel is wrong or time ran out, 2 if there is no CUDA device: then nothing
was checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 235  # in all; the suite may take what the benchmark does not need
BENCHMARK_SECONDS = 70


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        print(
            f"gpu-check: torch {torch.__version__} finds no CUDA device here; nothing was checked",
            file=sys.stderr,
        )
        return 2
    print(_machine(), flush=True)
    end = time.monotonic() + SECONDS
    suite = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    is_right = _run([*suite, str(HERE / "suite.py")], end - BENCHMARK_SECONDS)
    is_measured = _run([sys.executable, str(HERE / "benchmark.py")], end)
    print(f"gpu-check: {'passed' if is_right and is_measured else 'FAILED'}")
    return 0 if is_right and is_measured else 1


def _machine() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return (
        f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}, "
        f"torch {torch.__version__} for CUDA {torch.version.cuda}"
    )


def _run(command: list[str], end: float) -> bool:
    """Run a program until a moment; whether it did what it should."""
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**environment, "PYTHONPATH": paths},
            timeout=max(1.0, end - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        print(f"gpu-check: out of time: {' '.join(command)}")
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
