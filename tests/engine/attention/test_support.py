"""Declared support of backends, and each reason of a refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
import torch
from attrs import asdict as fields_of
from attrs import evolve

from batchwright.protocols.attention import AttentionBackend, AttentionSpec
from batchwright_engine.attention import batchwright_register_attention
from batchwright_engine.attention.support import Library, Support
from batchwright_engine.attention.torch_varlen import TorchVarlenAttention
from batchwright_engine.attention.triton_paged import TritonAttention
from batchwright_engine.attention.xformers_paged import XformersAttention

SPEC = AttentionSpec(
    num_layers=2,
    num_query_heads=8,
    num_kv_heads=2,
    head_size=64,
    dtype="float16",
    device="cuda",
    block_size=16,
    sliding_windows=(None, 100),
)
NEEDED = Library("needed", (1, 2), (1, 4), "pip install needed")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretends that there is a GPU of some capability."""

    def pretend(*capability: int) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Imaginary 9000")

    return pretend


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Pretends that exactly these distributions are installed."""

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)


def reason(kind: type[AttentionBackend], **changes: Any) -> str | None:
    options = getattr(kind, "Options", None)
    backend = kind(options() if options else None, None)  # type: ignore[arg-type]
    return backend.unsupported(evolve(SPEC, **changes))


@pytest.mark.parametrize(
    ("support", "changes", "expected"),
    [
        (Support(), {}, None),
        (Support(block_multiple=256), {"block_size": 0}, None),
        (Support(devices=("cpu",)), {}, "it computes on cpu, not on cuda"),
        (Support(), {"device": "mps"}, "it computes on cpu or cuda, not on mps"),
        (
            Support(dtypes=("float32", "bfloat16")),
            {},
            "it computes in float32 or bfloat16, not in float16",
        ),
        (Support(), {"num_query_heads": 5}, "5 query heads cannot share 2 key heads evenly"),
        (Support(most_group_size=3), {}, "at most 3 query heads may share a key head, not 4"),
        (Support(head_sizes=(16, 32)), {}, "it computes heads of 16 or 32 elements, not of 64"),
        (Support(most_head_size=32), {}, "it computes heads of at most 32 elements, not of 64"),
        (Support(head_size_multiple=24), {}, "elements a head must be a multiple of 24, not 64"),
        (Support(block_multiple=32), {}, "kv.block_size must be a multiple of 32 for it, not 16"),
        (Support(window=False), {}, "it has no sliding window, and layers of the model have one"),
        (Support(window=False), {"sliding_windows": (None, None)}, None),
        (Support(softcap=False), {"softcap": True}, "it cannot soft-cap scores, as the model does"),
        (
            Support(sinks=False),
            {"sinks": True},
            "it has no attention sinks, and the model has some",
        ),
    ],
)
def test_problem_names_what_is_not_supported(
    support: Support, changes: dict[str, Any], expected: str | None
) -> None:
    """One sentence, with what was asked and what there is."""
    assert support.problem(evolve(SPEC, **changes)) == expected


def test_problem_names_the_capability_of_the_gpu(gpu: Any) -> None:
    """Only where it computes on CUDA."""
    support = Support(capability=(8, 0))
    gpu(7, 5)
    expected = "it needs CUDA compute capability 8.0, and Imaginary 9000 has 7.5"
    assert support.problem(SPEC) == expected
    assert support.problem(evolve(SPEC, device="cpu")) is None
    gpu(8, 0)
    assert support.problem(SPEC) is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (None, "needed is not installed; run: pip install needed"),
        ("1.2", None),
        ("1.3.9+cu128", None),
        ("1.4.0rc1", "it needs needed >=1.2,<1.4, and 1.4.0rc1 is installed; "),
        ("1.1.9", "it needs needed >=1.2,<1.4, and 1.1.9 is installed; run: pip install needed"),
        ("1.2.dev3", None),
        ("2", "it needs needed >=1.2,<1.4, and 2 is installed; run: pip install needed"),
    ],
)
def test_problem_names_the_library(
    version: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, too old or too new."""
    installed(monkeypatch, **({} if version is None else {"needed": version}))
    actual = Support(libraries=(NEEDED,)).problem(SPEC)
    assert (actual is None) == (expected is None)
    assert (actual or "").startswith(expected or "")


def test_a_library_may_be_newer_than_any_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a version is known to be too new."""
    installed(monkeypatch, needed="17.1")
    open_ended = evolve(NEEDED, below=None)
    assert open_ended.problem() is None
    installed(monkeypatch, needed="1")
    assert open_ended.problem() == (
        "it needs needed >=1.2, and 1 is installed; run: pip install needed"
    )


@pytest.mark.parametrize("kind", [TritonAttention, XformersAttention, TorchVarlenAttention])
def test_kernels_for_cuda_refuse_a_cpu(kind: type[AttentionBackend]) -> None:
    """Whatever is installed."""
    assert reason(kind, device="cpu") == "it computes on cuda, not on cpu"


def test_triton_serves_what_its_kernel_can(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps, sinks, windows, any block; not heads or groups that do not fit a tile."""
    gpu(8, 0)
    installed(monkeypatch, triton="3.7.1")
    assert reason(TritonAttention, softcap=True, sinks=True, block_size=3) is None
    assert reason(TritonAttention, dtype="float32", head_size=80) is None
    assert "at most 256 elements, not of 512" in str(reason(TritonAttention, head_size=512))
    many = {"num_query_heads": 258, "num_kv_heads": 2}
    assert "at most 128 query heads may share a key head" in str(reason(TritonAttention, **many))
    installed(monkeypatch)
    assert reason(TritonAttention) == "triton is not installed; run: pip install triton"
    gpu(7, 5)
    assert "needs CUDA compute capability 8.0" in str(reason(TritonAttention))


@pytest.mark.parametrize("kind", [TritonAttention, XformersAttention])
def test_interpreted_kernels_serve_a_cpu(
    kind: type[AttentionBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is how they are tested; bfloat16 the interpreter gets wrong."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    installed(monkeypatch, triton="3.7.1", xformers="0.0.35")
    assert reason(kind, device="cpu") is None
    assert reason(kind, device="cpu", dtype="float32") is None
    refused = reason(kind, device="cpu", dtype="bfloat16")
    assert refused == "it computes in float32 or float16, not in bfloat16"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"block_size": 24}, "kv.block_size must be a multiple of 16 for it, not 24"),
        ({"dtype": "float32"}, "it computes in bfloat16 or float16, not in float32"),
        ({"head_size": 80}, "it computes heads of 16, 32, 64, 128, 256 or 512 elements, not of 80"),
        ({"softcap": True}, "it cannot soft-cap scores, as the model does"),
        ({"sinks": True}, "it has no attention sinks, and the model has some"),
    ],
)
def test_xformers_refuses_what_its_kernel_lacks(
    changes: dict[str, Any], expected: str, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is imported."""
    gpu(9, 0)
    installed(monkeypatch, xformers="0.0.35", triton="3.7.1")
    assert reason(XformersAttention, **changes) == expected


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, "xformers is not installed; run: pip install -e '.[cuda]'"),
        ({"xformers": "0.0.36"}, "it needs xformers >=0.0.35,<0.0.36, and 0.0.36 is installed"),
        ({"xformers": "0.0.35"}, "triton is not installed"),
    ],
)
def test_xformers_names_the_library_that_is_not_right(
    versions: dict[str, str], expected: str, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is one that is known."""
    gpu(9, 0)
    installed(monkeypatch, **versions)
    assert str(reason(XformersAttention)).startswith(expected)


def test_xformers_that_cannot_be_imported_is_a_reason(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one whose modules do not fit this torch."""
    gpu(9, 0)
    installed(monkeypatch, xformers="0.0.35", triton="3.7.1")
    name = "batchwright_engine.attention.xformers_attention"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "xformers.ops", None)
    assert "cannot be imported here: import of xformers.ops halted" in str(
        reason(XformersAttention)
    )


def test_varlen_needs_a_flash_attention_with_block_tables(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FlashAttention 3 on Hopper, 4 on Blackwell; torch's own has none."""
    from batchwright_engine.attention import torch_varlen

    gpu(9, 0)
    monkeypatch.setattr(torch_varlen, "find_spec", lambda name: None)
    assert reason(TorchVarlenAttention) == (
        "torch's own FlashAttention takes no block tables, and FA3 (the module "
        "flash_attn_interface) is not installed"
    )
    gpu(10, 0)
    assert "FA4 (the module flash_attn) is not installed" in str(reason(TorchVarlenAttention))
    monkeypatch.setattr(torch_varlen, "find_spec", lambda name: name)
    assert reason(TorchVarlenAttention) is None
    gpu(12, 0)
    assert reason(TorchVarlenAttention) == (
        "no FlashAttention takes block tables on compute capability 12"
    )
    gpu(8, 9)
    assert "needs CUDA compute capability 9.0" in str(reason(TorchVarlenAttention))


def test_varlen_needs_a_torch_that_has_it(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arguments have changed from version to version."""
    from torch.nn.attention import varlen

    gpu(9, 0)
    monkeypatch.setattr(varlen, "varlen_attn", lambda query, key, value: query)
    assert "takes no block tables" in str(reason(TorchVarlenAttention))
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", None)
    assert "has no varlen_attn" in str(reason(TorchVarlenAttention))


def test_every_backend_takes_part_in_the_choice() -> None:
    """Kernels for CUDA before what works everywhere; each place is taken once."""
    kinds = [offer.load() for offer in batchwright_register_attention()]
    order = sorted(kinds, key=lambda kind: -(kind.preference or 0))
    assert [kind.name for kind in order] == ["xformers", "triton", "torch-varlen", "numba", "torch"]
    assert len({kind.preference for kind in kinds}) == len(kinds)


def test_refusing_a_cpu_imports_no_library() -> None:
    """Most who have a CPU alone have them installed for nothing; so for numba and a GPU."""
    code = (
        "import sys\n"
        "from batchwright.protocols.attention import AttentionSpec\n"
        "from batchwright_engine.attention import batchwright_register_attention as hook\n"
        f"spec = AttentionSpec(**{fields_of(evolve(SPEC, device='cpu'))!r})\n"
        "kinds = [offer.load() for offer in hook() if offer.name not in ('numba', 'torch')]\n"
        "print(len(kinds), all(kind(None, None).unsupported(spec) for kind in kinds))\n"
        f"spec = AttentionSpec(**{fields_of(SPEC)!r})\n"
        "kinds = [offer.load() for offer in hook() if offer.name == 'numba']\n"
        "print(len(kinds), all(kind(None, None).unsupported(spec) for kind in kinds))\n"
        "print([m for m in ('torch', 'triton', 'xformers', 'numba') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["3 True", "1 True", "[]"]
