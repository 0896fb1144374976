"""Kernels for CUDA without CUDA: interpreted, compiled for GPUs that are not there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "tests" / "kernels"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python where Triton has not been imported yet."""
    paths = os.pathsep.join([str(ROOT / "core"), str(ROOT / "plugins")])
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "least"), [("triton", 23), ("xformers", 9)])
def test_interpreted_kernels_equal_dense_attention(backend: str, least: int) -> None:
    """The suite that runs on CUDA at full size: every test of a backend, none skipped."""
    suite = str(KERNELS / "suite.py")
    done = run(
        *["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"],
        *["-k", backend, suite],
        TRITON_INTERPRET="1",
        PYTEST_ADDOPTS="",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= least


@pytest.mark.slow
def test_kernels_compile_for_gpus(tmp_path: Path) -> None:
    """As the backend calls them; half precision on tensor cores, little shared memory."""
    done = run(
        str(KERNELS / "compile_check.py"), TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"(\w+) sm_(\d+) \d+ bytes, (\d+) shared, tensor cores (\w+)", done.stdout)
    kinds = {(name, target) for name, target, _, _ in lines}
    names = ("attend_tiles", "merge_splits")
    assert kinds == {(name, target) for name in names for target in ("80", "90")}
    assert all(int(shared) <= 99 * 1024 for _, _, shared, _ in lines)
    on_tensor_cores = [line for line in lines if line[3] == "True"]
    assert len(on_tensor_cores) == 6  # three of the four cases are in half precision


def test_gpu_check_without_a_gpu_fails_and_says_so() -> None:
    """Nothing was checked: that is no success."""
    for script in ("gpu_check.py", "benchmark.py"):
        done = run(str(KERNELS / script), CUDA_VISIBLE_DEVICES="")
        assert done.returncode == 2
        assert "finds no CUDA device here" in done.stderr


def test_benchmark_measures_every_step() -> None:
    """On a CPU it is small, and the columns are the same."""
    done = run(str(KERNELS / "benchmark.py"), "--cpu")
    assert done.returncode == 0, done.stderr
    copy, header, *lines = done.stdout.splitlines()
    assert re.match(r"device copy: [\d,]+ GB/s", copy)
    assert header.split()[:3] == ["step", "backend", "MB"]
    assert len(lines) == 7
    assert all(re.search(r" torch +[\d.]+ +[\d.]+ +\d+ +\d+% +[\d.]+$", line) for line in lines)
