"""Workloads of engines: a model, prompts as token ids, output lengths."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

__all__ = ["ROOT", "WORKLOADS", "Workload"]

ROOT = Path(__file__).resolve().parents[2]
CHAT = ROOT / "examples/prompts/quickstart.jsonl"
_NUM_CHATS = 32


@frozen
class Workload:
    """One measurement.

    Args:
        name: Its name, which ``--only`` takes.
        model: An embedded model's name, or (hidden size, layers, heads, intermediate
            size, vocabulary size) of a random Llama.
        dtype: Of weights and KV.
        threads: Threads that every engine computes with.
        output_lens: By prompt, output tokens; every one is computed.
    """

    name: str
    model: str | tuple[int, int, int, int, int]
    dtype: str
    threads: int
    output_lens: Sequence[int]

    def write(self, folder: Path) -> dict[str, Any]:
        """Write model and prompts; say where, and how to run them."""
        path = self.model if isinstance(self.model, str) else _llama(folder, *self.model)
        prompts = _chats(path) if isinstance(self.model, str) else _random(self)
        file = folder / f"{self.name}.jsonl"
        rows = [
            {"prompt_token_ids": ids, "max_tokens": count, "ignore_eos": True}
            for ids, count in zip(prompts, self.output_lens, strict=True)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {
            "model": str(_folder(path)),
            "path": path,
            "prompts": str(file),
            "dtype": self.dtype,
            "threads": self.threads,
        }


WORKLOADS = (
    Workload("tiny", (64, 2, 2, 128, 1000), "float32", 1, [64] * 64),
    Workload("small", (256, 4, 4, 512, 2000), "float32", 2, [64] * 64),
    Workload("small-mixed", (256, 4, 4, 512, 2000), "float32", 2, range(1, 65)),
    Workload("chat-bfloat16", "smollm2-135m", "bfloat16", 2, [64] * _NUM_CHATS),
    Workload("chat-float32", "smollm2-135m", "float32", 2, [64] * _NUM_CHATS),
)


def _llama(
    folder: Path, hidden: int, layers: int, heads: int, intermediate: int, vocabulary: int
) -> str:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    target = folder / f"llama-{hidden}x{layers}"
    logging.disable_progress_bar()
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        intermediate_size=intermediate,
        vocab_size=vocabulary,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(target)
    return str(target)


def _random(workload: Workload) -> list[list[int]]:
    """Prompts of 64 tokens, nothing shared."""
    chance, vocabulary = random.Random(0), int(workload.model[-1])
    return [[chance.randrange(3, vocabulary) for _ in range(64)] for _ in workload.output_lens]


def _chats(name: str) -> list[list[int]]:
    """The questions of the quickstart behind its system prompt."""
    import tomllib

    from batchwright_engine.executor.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(_folder(name))
    assert tokenizer is not None
    encode = tokenizer.encode_chat
    system = tomllib.loads((ROOT / "examples/quickstart.toml").read_text())["run"]["system"]
    lines = [json.loads(line) for line in CHAT.read_text().splitlines()]
    questions = [line["prompt"] for line in lines if isinstance(line.get("prompt"), str)]
    return [
        encode([{"role": "system", "content": system}, {"role": "user", "content": question}])
        for question in questions[:_NUM_CHATS]
    ]


def _folder(path: str) -> Path:
    from batchwright_engine.executor import embedded_model

    return embedded_model.prepare(path) if path in embedded_model.NAMES else Path(path)
