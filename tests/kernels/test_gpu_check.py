"""The check on a GPU, as far as it can be tried without one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
import torch

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall
from batchwright.testing import attention as testing

HERE = Path(__file__).resolve().parent
(FOLDER,) = {path.parent for path in HERE.parents[1].glob("plugins/*/attention/triton_kernels.py")}
NAMES = ("engine_check", "gpu_check", "kernel_check", "paged_decode", "plain", "sections")
ALL = {"torch", "triton", "numpy"}


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, ModuleType]]:
    """The programs of this folder, imported as they import one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield {name: import_module(name) for name in NAMES}
    for name in (*NAMES, "kernel_timing"):
        sys.modules.pop(name, None)


def section(programs: dict[str, ModuleType], name: str) -> Any:
    (found,) = (one for one in programs["sections"].SECTIONS if one.name == name)
    return found


@pytest.mark.parametrize(
    ("name", "device", "installed", "more", "expected"),
    [
        ("triton-kernels", "cuda", {"torch", "triton"}, {}, None),
        ("triton-kernels", "cuda", {"torch"}, {}, "not installed: triton"),
        ("triton-kernels", "cuda", set(), {}, "not installed: torch, triton"),
        ("triton-kernels", "cpu", {"torch", "triton"}, {}, "not installed: numpy"),
        (
            "triton-kernels",
            "cuda",
            ALL,
            {"capability": (7, 5)},
            "it needs CUDA compute capability 8.0, and this GPU has 7.5",
        ),
        ("torch-kernels", "cuda", ALL, {"capability": (7, 5)}, None),
        ("torch-kernels", "cuda", {"torch", "triton"}, {}, "not installed: numpy"),
        ("paged-decode", "cuda", {"torch", "triton"}, {}, None),
        ("paged-decode", "cuda", {"torch", "numpy"}, {}, None),
        ("paged-decode", "cuda", {"torch"}, {}, "none of these is installed: triton, numpy"),
        (
            "engine-greedy",
            "cuda",
            {*ALL, "importlib_metadata", "xxhash", "gguf", "safetensors", "tokenizers"},
            {},
            "not installed: attrs, pluggy, transformers",
        ),
    ],
)
def test_a_section_is_skipped_by_the_names_of_what_is_missing(
    programs: dict[str, ModuleType],
    name: str,
    device: str,
    installed: set[str],
    more: dict[str, Any],
    expected: str | None,
) -> None:
    skip = programs["sections"].reason_to_skip
    assert skip(section(programs, name), device, installed, **more) == expected


def test_sections_of_batchwright_need_its_python(programs: dict[str, ModuleType]) -> None:
    sections = programs["sections"]
    reasons = {
        one.name: sections.reason_to_skip(one, "cuda", one.packages, (3, 10))
        for one in sections.SECTIONS
    }
    assert {name for name, reason in reasons.items() if reason is None} == {
        "triton-kernels",
        "torch-kernels",
        "paged-decode",
    }
    assert reasons["suite"] == "Batchwright needs Python 3.11, this is 3.10"


def test_all_sections_together_keep_less_than_four_minutes(programs: dict[str, ModuleType]) -> None:
    kept = sum(one.seconds for one in programs["sections"].SECTIONS)
    assert kept <= programs["gpu_check"].SECONDS < 240


@pytest.mark.parametrize(
    ("left", "expected"),
    [(200.0, 160.0), (60.0, 25.0), (10.0, 10.0), (-3.0, 1.0)],
    ids=["what is not kept", "what is kept for it", "what is left", "never nothing"],
)
def test_time_of_a_section(programs: dict[str, ModuleType], left: float, expected: float) -> None:
    """Behind paged-decode (25 s) come two that keep 40."""
    sections = programs["sections"]
    behind = [sections.Section("some", (), seconds=15), sections.Section("more", (), seconds=25)]
    decode = section(programs, "paged-decode")
    assert sections.seconds_for(decode, behind, left) == expected


@pytest.mark.parametrize(
    ("statuses", "code", "line"),
    [
        (["passed", "skipped"], 0, "gpu-check: passed: 1 passed, 0 failed, 1 skipped"),
        (["passed", "failed"], 1, "gpu-check: FAILED: 1 passed, 1 failed, 0 skipped"),
        (["skipped"], 2, "gpu-check: there is none; nothing was checked"),
    ],
)
def test_exit_codes(
    programs: dict[str, ModuleType], statuses: list[str], code: int, line: str
) -> None:
    results = [{"status": status} for status in statuses]
    assert programs["gpu_check"].exit_code(results) == code
    assert programs["gpu_check"].last_line(results, "there is none") == line


def test_python_without_packages_skips_every_section_by_name(tmp_path: Path) -> None:
    """And writes it down; the exit code says that nothing was checked."""
    output = tmp_path / "new" / "result.json"
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(HERE / "gpu_check.py"), "--json", str(output)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == "gpu-check: torch is not installed; nothing was checked\n"
    assert "triton-kernels: skipped: not installed: torch, triton\n" in done.stdout
    found = json.loads(output.read_text())
    assert found["exit_code"] == 2
    assert found["versions"] == {}
    assert {one["status"] for one in found["sections"]} == {"skipped"}
    assert all(one["reason"].startswith("not installed: torch") for one in found["sections"])


def test_a_section_that_fails_is_told_with_its_exit_code(
    programs: dict[str, ModuleType], tmp_path: Path
) -> None:
    failing = programs["sections"].Section(
        "some", ("-c", "raise SystemExit(3)"), seconds=9, has_numbers=False
    )
    result = programs["gpu_check"].run(failing, "cpu", 60.0, tmp_path)
    del result["seconds"]
    assert result == {"name": "some", "status": "failed", "reason": "exit code 3"}


def test_a_section_that_is_out_of_time_has_failed(
    programs: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(programs["gpu_check"].subprocess, "run", run)
    slow = programs["sections"].Section("some", (), seconds=9)
    result = programs["gpu_check"].run(slow, "cuda", 12.0, tmp_path)
    assert (result["status"], result["reason"]) == ("failed", "out of time: it had 12 s")


def test_torch_that_cannot_be_imported_is_told_by_its_error(
    programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = subprocess.CompletedProcess([], 1, "", "Traceback\nImportError: libcudart.so.13\n")
    monkeypatch.setattr(programs["gpu_check"].subprocess, "run", lambda *a, **k: broken)
    _, nothing = programs["gpu_check"].look_around("cuda", {"torch"})
    assert nothing == "torch cannot be used: ImportError: libcudart.so.13"


def test_machine_without_a_gpu_checks_nothing_on_cuda(
    programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs["gpu_check"], "probe", lambda: {"torch": "9.9", "gpu": None})
    look_around = programs["gpu_check"].look_around
    assert look_around("cuda", {"torch"})[1] == "torch 9.9 finds no CUDA device here"
    assert look_around("cpu", {"torch"})[1] is None


def imported(path: Path) -> set[str]:
    """Modules that a module imports when it is imported; ``.name`` for one beside it."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(f".{node.module}" if node.level else str(node.module).partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("module", "allowed"), [("triton_attention", {"torch", "triton"}), ("paged_attention", ALL)]
)
def test_kernels_need_few_packages(module: str, allowed: set[str]) -> None:
    """With everything beside them that they import."""
    seen, left, found = set(), [f".{module}"], set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        names = imported(FOLDER / f"{name[1:]}.py")
        left += [other for other in names if other.startswith(".")]
        found |= {other for other in names if not other.startswith(".")}
    assert len(seen) > 3
    assert found - set(sys.stdlib_module_names) <= allowed


@pytest.mark.parametrize(
    ("plain", "ours"),
    [("Spec", AttentionSpec), ("Batch", AttentionBatch), ("Call", LayerCall), ("Copy", BlockCopy)],
)
def test_plain_inputs_have_the_fields_that_kernels_read(
    programs: dict[str, ModuleType], plain: str, ours: type[Any]
) -> None:
    found = [field.name for field in fields(getattr(programs["plain"], plain))]
    assert found == [field.name for field in attrs.fields(ours)]


def test_plain_batch_equals_the_one_of_the_conformance_tests(
    programs: dict[str, ModuleType],
) -> None:
    tables, shapes = [[3, 1], [2]], [(3, 4), (0, 2)]
    expected = testing.make_batch(tables, [testing.Shape(*shape) for shape in shapes], 4)
    actual = programs["plain"].make_batch(tables, shapes, 4, "cpu")
    for field in fields(actual):
        left, right = getattr(expected, field.name), getattr(actual, field.name)
        if isinstance(left, torch.Tensor):
            assert left.dtype == right.dtype
            assert torch.equal(left, right)
        else:
            assert left == right


@pytest.mark.parametrize(
    "options",
    [{}, {"window": 3}, {"softcap": 2.0}, {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])}],
    ids=["plain", "window", "softcap", "sinks"],
)
def test_plain_attention_equals_the_one_of_the_conformance_tests(
    programs: dict[str, ModuleType], options: dict[str, Any]
) -> None:
    draw = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(n, heads, 8, generator=draw) for n, heads in ((3, 4), (9, 2), (9, 2))
    )
    expected = testing.dense_attention(query, key, value, scale=0.3, **options)
    actual = programs["plain"].dense_attention(query, key, value, scale=0.3, **options)
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


def test_kernel_check_passes_on_a_cpu(
    programs: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")  # the program sets it
    output = tmp_path / "result.json"
    arguments = ["--kernels", "torch", "--device", "cpu", "--json", str(output)]
    assert programs["kernel_check"].main(arguments) == 0
    checks = json.loads(output.read_text())["checks"]
    assert [check["check"] for check in checks] == [
        "decodes",
        "prompts and chunks",
        "sliding window",
        "soft cap",
        "sinks",
        "copied blocks",
    ]
    assert all(check["passed"] for check in checks)


def test_kernel_check_finds_wrong_kernels(
    programs: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Here: with a sliding window, each answer is off a little."""
    check = programs["kernel_check"]
    right = check.make

    def wrong(*arguments: Any) -> Any:
        made = right(*arguments)
        forward = made.forward
        made.forward = lambda call: forward(call) + (0.01 if arguments[1].window else 0.0)
        return made

    monkeypatch.setattr(check, "make", wrong)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert check.main(["--kernels", "torch", "--device", "cpu"]) == 1
    assert capsys.readouterr().out.endswith("wrong with the kernels torch: sliding window\n")


def test_paged_decode_counts_the_keys_and_values_that_are_read(
    programs: dict[str, ModuleType],
) -> None:
    load = programs["paged_decode"].Load(32, 4096, unit=1 << 30)
    assert load.layer_bytes == 32 * 4096 * 2 * 8 * 128 * 2
    assert (load.num_layers, load.kv_bytes) == (2, 1 << 30)


def test_paged_decode_is_measured_beside_a_copy(
    programs: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With numbers that follow from the times."""
    decode, output = programs["paged_decode"], tmp_path / "result.json"
    monkeypatch.setattr(decode, "seconds_a_call", lambda call, _: 0.5 if call() else 0.25)
    monkeypatch.setattr(decode, "copy_rate", lambda device: 1e9)
    assert decode.main(["--device", "cpu", "--json", str(output)]) == 0
    found = json.loads(output.read_text())
    refused, row, _ = found["rows"]
    assert refused == {"kernels": "triton", "not_measured": "Triton measures on CUDA alone"}
    assert (found["copy_gb_per_second"], row["batch"], row["context"]) == (1.0, 1, 1024)
    assert (row["kv_bytes"], row["seconds"], row["prepare_seconds"]) == (1 << 24, 0.5, 0.25)
    assert row["gb_per_second"] == row["share_of_copy"] == (1 << 24) / 0.5 / 1e9


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux")
def test_every_section_passes_on_a_cpu(tmp_path: Path) -> None:
    """At a small size: Triton's kernels interpreted, greedy tokens as of ``generate()``."""
    output = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, str(HERE / "gpu_check.py"), "--device", "cpu", "--json", str(output)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sections = {one["name"]: one for one in json.loads(output.read_text())["sections"]}
    assert {name for name, one in sections.items() if one["status"] == "skipped"} == {"suite"}
    checks = sections["engine-greedy"]["numbers"]["checks"]
    assert [check["backend"] for check in checks if check.get("passed")] == [
        "auto",
        "auto",
        "torch",
        "auto",
    ]
    assert all(check["num_preemptions"] > 0 for check in checks if "passed" in check)
