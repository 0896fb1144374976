"""Tests of the components inside vLLM; they need an environment with vLLM: ``make test-vllm``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests")]
pytest.importorskip("vllm", reason="vLLM is not installed; run make test-vllm")
