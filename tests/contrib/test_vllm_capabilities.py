"""What vLLM honours is said once: in the records that the package checks by."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from batchwright.hookspecs import COMPONENT_KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "run-inside-vllm.md"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "contrib" / "batchwright-vllm" / "src")
    for name in [name for name in sys.modules if name.startswith("batchwright_vllm")]:
        monkeypatch.delitem(sys.modules, name)


def test_the_page_shows_the_records() -> None:
    from batchwright_vllm.capabilities import as_table

    assert as_table() in PAGE.read_text(encoding="utf-8")


def test_every_record_names_a_method_of_a_contract() -> None:
    from batchwright_vllm.capabilities import CAPABILITIES

    for name in CAPABILITIES:
        kind, _, method = name.partition(".")
        is_ours = (kind, method) == ("scheduler", "plan")  # of StepScheduler
        assert is_ours or callable(getattr(COMPONENT_KINDS[kind], method)), name


def test_the_package_is_imported_without_vllm() -> None:
    import batchwright_vllm

    assert "vllm" not in sys.modules
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        _ = batchwright_vllm.Other
