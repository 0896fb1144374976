"""Kernels for CUDA without CUDA: interpreted, compiled for GPUs that are not there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from batchwright.testing.attention import Case, Shape

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
@pytest.mark.parametrize(("backend", "least"), [("triton", 24), ("xformers", 10), ("torch-", 4)])
def test_interpreted_kernels_equal_dense_attention(backend: str, least: int) -> None:
    """The suite that runs on CUDA at full size; bfloat16 alone is skipped here."""
    suite = str(KERNELS / "suite.py")
    done = run(
        *["-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "-rs"],
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
    assert len(on_tensor_cores) == 4  # two of the three cases are in half precision


def test_gpu_check_without_a_gpu_fails_and_says_so(tmp_path: Path) -> None:
    """Nothing was checked: that is no success."""
    output = str(tmp_path / "result.json")
    done = run(str(KERNELS / "gpu_check.py"), "--json", output, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "finds no CUDA device here; nothing was checked" in done.stderr


@pytest.fixture(scope="module")
def benchmark_program() -> ModuleType:
    spec = spec_from_file_location("kernel_benchmark", KERNELS / "benchmark.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(KERNELS))
        spec.loader.exec_module(module)
    return module


def test_benchmark_without_a_gpu_fails_and_says_so(
    benchmark_program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert benchmark_program.main([]) == 2
    assert "finds no CUDA device here" in capsys.readouterr().err


def test_benchmark_measures_every_step(benchmark_program: ModuleType, capsys: Any) -> None:
    """On a CPU it is small, and the columns are the same."""
    assert benchmark_program.main(["--device", "cpu"]) == 0
    copy, header, *lines = capsys.readouterr().out.splitlines()
    assert re.match(r"device copy: [\d,]+ GB/s", copy)
    assert header.split()[:3] == ["step", "backend", "MB"]
    assert len(lines) == 7
    assert all(re.search(r" torch +[\d.]+ +[\d.]+ +\d+ +\d+% +[\d.]+$", line) for line in lines)


def test_benchmark_counts_what_a_layer_moves(benchmark_program: ModuleType) -> None:
    """Keys and values seen and written, queries and answers, each once."""
    case = Case(requests=[Shape(9, 1), Shape(0, 4)], group_size=3, head_size=8, dtype="bfloat16")
    keys_and_values, queries_and_answers = 2 * 2 * (14 + 5), 2 * 6 * 5
    expected = (keys_and_values + queries_and_answers) * 8 * 2
    assert benchmark_program.Work("some", case).bytes_moved == expected


def test_benchmark_says_what_it_could_not_measure(
    benchmark_program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the backend's own reason."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    work = benchmark_program.works(is_small=True)[0]
    call = benchmark_program.backend_call("triton", work)
    assert call == "it computes on cuda, not on cpu"
