"""vLLM's engine with a model on the CPU, with Batchwright's scheduler class."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "engine_child.py"
CLS = "batchwright_vllm.Scheduler"
FAIR = """
[scheduler]
policy = "fair"

[[observer]]
use = "decision-log"
path = "decisions.jsonl"
"""


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=128,
        vocab_size=1000,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def answers(
    model: Path, cls: str, config: str, cwd: Path, *, processes: bool = True, **env: str
) -> Any:
    """Answer the prompts of the child in another process; return their tokens."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(model), cls, config],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes)),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **env,
        },
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("TOKENS ")]
    assert found, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(found[0].removeprefix("TOKENS "))


@pytest.fixture(scope="session")
def expected(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return answers(llama, "-", "-", tmp_path_factory.mktemp("stock"))


@pytest.mark.parametrize("processes", [True, False], ids=["several-processes", "one-process"])
def test_tokens_are_those_of_stock_vllm(
    llama: Path, expected: Any, tmp_path: Path, *, processes: bool
) -> None:
    assert answers(llama, CLS, "-", tmp_path, processes=processes) == expected


def test_a_toml_file_by_a_relative_path_reaches_the_engine_process(
    llama: Path, expected: Any, tmp_path: Path
) -> None:
    """The policy changes the order, and no token; the log is beside the TOML file."""
    (tmp_path / "policy.toml").write_text(FAIR)
    found = answers(llama, CLS, "-", tmp_path, BATCHWRIGHT_CONFIG="policy.toml")
    assert found == expected
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    admitted = [name for line in lines for name in line.get("admitted", {})]
    assert len(admitted) == 8
    order = [name.partition("-")[0] for name in admitted]
    assert order.index("7") < 7  # the only request of its client
    finished = {name for line in lines for name in line.get("finished", {})}
    assert finished == set(admitted)


def test_a_plugin_that_is_missing_stops_the_start_by_name(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[scheduler]\npolicy = "absent"\n')
    with pytest.raises(AssertionError, match="absent"):
        answers(llama, CLS, "policy.toml", tmp_path)
