"""Logs that vLLM's scheduler writes are read by Batchwright's commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import Bench


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.jsonl"
    config = {
        "scheduler": {"policy": "fair"},
        "plugins": {"accept_degraded": ["gate.pre_enqueue"]},
        "gate": [{"use": "full-need"}, {"use": "queue-timeout", "seconds": 30}],
        "observer": [{"use": "decision-log", "path": str(path)}],
    }
    bench = Bench(config, num_blocks=20, max_num_seqs=3)
    for index in range(10):
        bench.add(f"r{index}", 10 + 7 * index, 20, client="ab"[index % 2])
    bench.drain()
    return path


def batchwright(*arguments: object, cwd: Path) -> str:
    command = [str(Path(sys.executable).with_name("batchwright")), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_simulator_repeats_every_decision(log: Path) -> None:
    assert "Every decision is the recorded one." in batchwright("replay", log, cwd=log.parent)


def test_another_policy_is_tried_on_the_recorded_traffic(log: Path) -> None:
    told = batchwright("replay", log, "--policy", "sjf", "--trust-estimator", cwd=log.parent)
    assert "By end-to-end latency" in told


def test_a_request_is_explained(log: Path) -> None:
    told = batchwright("explain", "r7", "--log", log, cwd=log.parent)
    assert "arrives" in told
    assert "ends: length (max_tokens)" in told
