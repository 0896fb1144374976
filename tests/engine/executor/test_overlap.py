"""The torch executor under an engine that plans the next step while one is computed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright import SamplingParams
from batchwright.messages import RequestOutput
from batchwright_engine import Engine

from .test_torch_executor import prompts


def answers(folder: Path, depth: int, threads: list[int] | None = None) -> dict[str, Any]:
    """Return the answers of an engine with little memory: tokens, ends, preemptions."""
    engine = Engine.from_config(
        {
            "model": {"path": str(folder), "dtype": "float32", "max_model_len": 90},
            "scheduler": {"max_num_batched_tokens": 24, "max_num_seqs": 5, "pipeline_depth": depth},
            "kv": {"num_blocks": 26, "block_size": 4},
            "executor": {"torch": {"device": "cpu", "threads": 1}},
        }
    )
    if threads is not None:
        execute = engine.executor.execute

        def noted(plan: Any) -> Any:
            threads.append(threading.get_ident())
            return execute(plan)

        engine.executor.execute = noted  # type: ignore[method-assign]
    outputs = {}
    for output in engine.generate(prompts(len(PARAMS)), PARAMS):
        outputs[output.request_id] = output
    assert engine.scheduler.kv_manager.num_free_blocks == 25
    engine.close()
    return outputs


PARAMS = [
    SamplingParams(max_tokens=20, ignore_eos=True),
    SamplingParams(max_tokens=20, temperature=1.2, seed=4, ignore_eos=True),
    SamplingParams(max_tokens=20, min_tokens=3, stop_token_ids=tuple(range(2, 40))),
    SamplingParams(max_tokens=1),
    SamplingParams(max_tokens=20, frequency_penalty=1.5, logprobs=2, ignore_eos=True),
    SamplingParams(max_tokens=20, temperature=0.7, stop_token_ids=tuple(range(40, 60))),
    SamplingParams(max_tokens=12, ignore_eos=True),
    SamplingParams(max_tokens=7, temperature=1.0, top_p=0.9, min_tokens=7),
]


def told(outputs: dict[str, RequestOutput]) -> dict[str, Any]:
    return {name: (o.token_ids, o.finish_reason, o.detail) for name, o in outputs.items()}


@pytest.mark.parametrize("depth", [2, 3])
def test_overlap_changes_no_token(depth: int, tiny_model: Callable[..., Path]) -> None:
    """Stops, lengths, penalties, seeds, chunks and preemptions: as one step after the other."""
    folder, threads = tiny_model("llama"), []
    plain = answers(folder, 1)
    overlapped = answers(folder, depth, threads)
    assert told(plain) == told(overlapped)
    assert {"stop", "length"} == {o.finish_reason for o in plain.values()}
    assert any(o.metrics["num_preemptions"] for o in overlapped.values())
    (thread,) = set(threads)
    assert thread != threading.get_ident()


def test_logprobs_are_given_with_overlap(tiny_model: Callable[..., Path]) -> None:
    """One entry a token, the same ones."""
    folder = tiny_model("llama")
    plain, overlapped = (answers(folder, depth)["request-4"] for depth in (1, 2))
    assert len(overlapped.logprobs) == 20
    assert [e.token_id for e in overlapped.logprobs] == overlapped.token_ids
    for entry, other in zip(plain.logprobs, overlapped.logprobs, strict=True):
        assert entry.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_model_is_loaded_on_threads_that_have_ended(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever OpenMP made for them is gone when steps are computed on another one."""
    from batchwright_engine.executor import model_loader, model_runner

    seen: list[int] = []

    def watched(module: Any, name: str) -> None:
        work = getattr(module, name)

        def wrapper(*args: Any) -> Any:
            seen.append(threading.get_ident())
            assert threading.current_thread().name.startswith("batchwright-apart")
            return work(*args)

        monkeypatch.setattr(module, name, wrapper)

    watched(model_loader, "load_model")
    watched(model_runner, "ModelRunner")
    before = set(threading.enumerate())
    assert len(answers(tiny_model("llama"), 2)) == len(PARAMS)
    assert len(seen) == 2
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("batchwright")]
