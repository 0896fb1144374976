"""``vllm serve`` with Batchwright's scheduler class, and OpenAI's client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MODEL = os.environ.get("BATCHWRIGHT_TEST_MODEL", "")
POLICY = """
[scheduler]
policy = "fair"

[plugins]
accept_degraded = ["gate.pre_enqueue"]

[[gate]]
use = "queue-timeout"
seconds = 300

[[observer]]
use = "decision-log"
path = "decisions.jsonl"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server, and the folder of its TOML file."""
    if not MODEL:
        pytest.skip("BATCHWRIGHT_TEST_MODEL names no folder of a model; run make test-vllm")
    folder = tmp_path_factory.mktemp("server")
    (folder / "policy.toml").write_text(POLICY)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        # What `vllm serve` runs; the command asks for a distribution of that very name.
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", MODEL, "--served-model-name", "smollm2", "--port", str(port)),
        *("--scheduler-cls", "batchwright_vllm.Scheduler"),
        *("--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "4"),
        *("--max-num-batched-tokens", "128", "--block-size", "32", "--enforce-eager"),
    ]
    log = (folder / "server.txt").open("w")
    running = subprocess.Popen(
        command,
        cwd=folder,
        stdout=log,
        stderr=log,
        env={
            **os.environ,
            "BATCHWRIGHT_CONFIG": "policy.toml",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        },
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", running, folder / "server.txt")
        yield f"http://127.0.0.1:{port}/v1", folder
    finally:
        running.send_signal(signal.SIGINT)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
        log.close()


def _wait_for(url: str, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert running.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-3000:])


def test_the_client_names_itself_and_is_answered(server: tuple[str, Path]) -> None:
    """Clients, classes and hints reach the policy, and the log has the requests."""
    from openai import OpenAI

    url, folder = server
    client = OpenAI(base_url=url, api_key="none")
    answers = [
        client.completions.create(
            model="smollm2",
            prompt=f"Story {index}: once upon a time",
            max_tokens=8,
            temperature=0,
            extra_body={"vllm_xargs": {"client": name, "slo_class": "chat", "tries": 2}},
        )
        for index, name in enumerate(("alice", "bob", "alice"))
    ]
    assert all(answer.choices[0].text for answer in answers)
    lines = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    added = {name: given for line in lines for name, given in line.get("added", {}).items()}
    fields = [given[3] for given in added.values()]
    assert [given.get("client") for given in fields] == ["alice", "bob", "alice"]
    assert {given.get("slo_class") for given in fields} == {"chat"}
    assert all(given["hints"] == {"tries": 2} for given in fields)


def test_the_log_is_explained_and_replayed_under_another_policy(
    server: tuple[str, Path], tmp_path: Path
) -> None:
    """The log of the server, copied, goes through the commands."""
    _, folder = server
    copied = tmp_path / "decisions.jsonl"
    copied.write_bytes((folder / "decisions.jsonl").read_bytes())
    batchwright = str(Path(sys.executable).with_name("batchwright"))
    lines = [json.loads(line) for line in copied.read_text().splitlines()]
    name = next(name for line in lines for name in line.get("added", {}))
    for command in (
        ["explain", name, "--log", str(copied)],
        ["replay", str(copied), "--policy", "sjf", "--trust-estimator"],
    ):
        done = subprocess.run(
            [batchwright, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
