"""Small valid files of every kind that is read."""

from __future__ import annotations

import io
import json
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

__all__ = [
    "AZURE", "BURSTGPT", "CONFIG", "CSV_PROFILE", "JSONL", "LINEAR", "MOONCAKE", "PROMPTS",
    "SERVEGEN", "SHAREGPT", "TEXTS", "archive", "cell", "log",
]  # fmt: skip


def _lines(*records: object) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


CONFIG = b"""\
[model]
max_model_len = 1024

[run]
system = "Be kind."

[sampling]
temperature = 0.5
stop = ["a", "b"]

[scheduler]
policy = "priority"
max_num_seqs = 4

[policy.priority]
preempts = true

[kv]
block_size = 16
num_blocks = 100

[simulation]
workload = "poisson"
estimator = "linear"

[workload.poisson]
rate = 2.5
prompt = {distribution = "lognormal", mean = 40.0, cv = 0.5}

[[gate]]
use = "watermark"
fraction = 0.05

[[observer]]
use = "decision-log"
path = "decisions.jsonl"
"""

PROMPTS = _lines(
    {"prompt": "Why?", "max_tokens": 64, "priority": 1, "deadline": 2.5, "client": "ada"},
    {"id": "b", "prompt_token_ids": [1, 2, 3], "sampling": {"seed": 3, "stop": ["x"]}},
    {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "ada"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "7", "tool_call_id": "c"},
        ],
        "hints": {"a": [1]},
        "cache_salt": "s",
    },
)
TEXTS = "Why is the sky blue?\n\n  And the séa?\n{two}\n".encode()

AZURE = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50,396,109
2023-11-16 18:15:51.5+00:00,879,55
"""

BURSTGPT = b"""\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,"GPT-4",417,276,693,API log
"""

MOONCAKE = _lines(
    {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 0, "input_length": 1100, "output_length": 50, "hash_ids": [0, 2, 3]},
    {"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]},
)

JSONL = _lines(
    {"time": 0, "prompt_tokens": 30, "output_tokens": 4, "prefix": {"sys": 10, "doc": 10}},
    {"time": 1.5, "prompt_tokens": 25, "output_tokens": 4, "client": "ada", "hints": {"x": 1}},
    {
        "time": 2,
        "prompt_token_ids": [7, 8],
        "output_tokens": 2,
        "priority": -1,
        "deadline": 2.5,
        "max_tokens": 40,
        "request_id": "mine",
        "output_token_id": 77,
    },
)

SHAREGPT = json.dumps(
    [
        {
            "id": "a",
            "conversations": [
                {"from": "system", "value": "x" * 40},
                {"from": "human", "value": "x" * 40},
                {"from": "gpt", "value": 5},
                {"from": "tool", "value": "y" * 28},
                {"from": "gpt", "value": "y" * 28},
            ],
        },
        {"conversations": [{"role": "user", "content": 4}, {"role": "assistant", "content": 2}]},
    ],
    indent=1,
).encode()

SERVEGEN = {
    "chunk-0-trace.csv": b"0,0.5,1.0,Gamma,1.0,9\n600,0.2,2.0,Weibull,0.25,9\n1200,0,0,,0,0\n",
    "chunk-0-dataset.json": json.dumps(
        {
            "0": {"input_tokens": "{10: 0.5, 12: 0.5}", "output_tokens": "{4: 1.0}"},
            "600": {"input_tokens": "{50: 1.0}", "output_tokens": {"7": 1.0}},
            "900": {"input_tokens": "{}", "output_tokens": "{}"},
        }
    ).encode(),
}

LINEAR = b"""\
# Fitted to 64 steps.
base = 0.01629
per_token = 5.9e-5
per_context_token = 1e-7
per_attention = 2e-9
per_request = 0.0
"""

CSV_PROFILE = {
    "profile.toml": b'num_layers = 2\nhidden_size = 64\nonce = ["embedding"]\ntwice = ["norm"]\n',
    "dense.csv": b"layer,tokens,time_us\nembedding,1,2\nmlp,1,10\nmlp,64,100\nnorm,1,1\n",
    "per_sequence.csv": b"layer,sequences,time_us\nlm_head,1,50\nsampler,8,60\n",
    "attention.csv": (
        b"prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
        b"0,0,1,16,9.3\n0,0,8,128,12\n16,0,0,0,20\n64,128,0,0,40\n16,0,1,16,25\n64,128,8,128,60\n"
    ),
}


def archive(suffix: str) -> bytes:
    """The files of SERVEGEN in a tar archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{suffix}") as tar:
        for name, data in SERVEGEN.items():
            member = tarfile.TarInfo(f"some/where/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


@cache
def log() -> bytes:
    """A decision log: few seats, few blocks, a preemption, a step in flight beside another."""
    lines = [
        {"time": i, "prompt_tokens": 20 + 10 * i, "output_tokens": 9 + i, "client": "ada"}
        for i in range(4)
    ]
    with TemporaryDirectory() as folder:
        (Path(folder) / "trace").write_bytes(_lines(*lines))
        _simulate(folder, "--steps")
        return (Path(folder) / "out" / "steps.jsonl").read_bytes()


def _simulate(folder: str, *more: str) -> None:
    from batchwright_cli.main import main

    options = {
        "kv.num_blocks": 8,
        "scheduler.max_num_seqs": 2,
        "estimator.linear.base": 1.0,
        "model.max_model_len": 100,
    }
    overrides = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    arguments = ["simulate", "--workload", f"jsonl:{folder}/trace", "--output", f"{folder}/out"]
    result = CliRunner().invoke(main, [*arguments, *overrides, *more])
    assert result.exit_code == 0, result.output


@cache
def cell() -> bytes:
    """A cell of a comparison."""
    from batchwright.config import Config
    from batchwright_lab.comparison.cell import Cell
    from batchwright_lab.comparison.cell_run import run_cell

    table = {
        "simulation": {"workload": "poisson"},
        "workload": {"poisson": {"num_requests": 6, "num_clients": 2}},
    }
    made = Cell("fcfs", "", 1.0, 0, None, False, Config.from_dict(table))
    return f"{json.dumps(run_cell(made))}\n".encode()
