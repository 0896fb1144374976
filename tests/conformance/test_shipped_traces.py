"""Workloads and estimators that read files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from batchwright.testing.conformance import EstimatorConformance, WorkloadConformance
from batchwright_lab.estimator.measured import Measured
from batchwright_lab.workload.azure import Azure
from batchwright_lab.workload.burstgpt import BurstGpt
from batchwright_lab.workload.jsonl import Jsonl
from batchwright_lab.workload.mooncake import Mooncake
from batchwright_lab.workload.servegen import ServeGen
from batchwright_lab.workload.sharegpt import ShareGpt

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""
BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,Conversation log
"""
JSONL = """\
{"time": 0, "prompt_tokens": 800, "output_tokens": 120}
{"time": 0.5, "prompt_tokens": 30, "output_tokens": 5, "prefix": {"system": 20}, "client": "ada"}
{"time": 2, "prompt_token_ids": [5, 6, 7], "output_tokens": 1, "max_tokens": 9, "request_id": "x"}
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 1024, "output_length": 50, "hash_ids": [0, 2]}
{"timestamp": 3000, "input_length": 20, "output_length": 7, "hash_ids": [3]}
"""
SHAREGPT = json.dumps(
    [
        {
            "id": "a",
            "conversations": [
                {"from": "human", "value": "How long is a piece of string?"},
                {"from": "gpt", "value": 12},
                {"from": "human", "value": 5},
                {"from": "gpt", "value": "Twice half its length."},
            ],
        },
        {"id": "b", "conversations": [{"from": "user", "value": 40}, {"from": "gpt", "value": 3}]},
    ]
)
WINDOWS = "0,2.5,1.2,Gamma,0.7,1\n600,3,0.9,Weibull,1.1,1\n1200,0,0,,0,0\n"
LENGTHS = json.dumps({"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{3: 1.0}"}})


def write(folder: Path, cls: type[Any]) -> str:
    """A small trace of a workload; its path."""
    contents = {
        Azure: AZURE,
        BurstGpt: BURSTGPT,
        Jsonl: JSONL,
        Mooncake: MOONCAKE,
        ShareGpt: SHAREGPT,
    }
    path = folder / f"{cls.name}.trace"
    if cls is ServeGen:
        path.mkdir()
        for number in (0, 7):
            (path / f"chunk-{number}-trace.csv").write_text(WINDOWS)
            (path / f"chunk-{number}-dataset.json").write_text(LENGTHS)
    else:
        path.write_text(contents[cls])
    return str(path)


class FromFile(WorkloadConformance):
    """A workload with a file to read."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "options", {"path": write(tmp_path, self.component)})


for workload in (Azure, BurstGpt, Jsonl, Mooncake, ServeGen, ShareGpt):
    name = f"Test{workload.__name__}"
    globals()[name] = type(name, (FromFile,), {"component": workload})


class TestMeasured(EstimatorConformance):
    component = Measured

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        (tmp_path / "measured.toml").write_text(
            "base = 0.01\nper_token = 2e-5\nper_context_token = 1e-7\n"
            "per_attention = 3e-9\nper_request = 1e-5\n"
        )


del FromFile, WorkloadConformance, EstimatorConformance
