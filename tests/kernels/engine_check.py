"""Compare greedy tokens of the engine with those of transformers' ``generate()``.

    python tests/kernels/engine_check.py --device cuda

Needs what the engine needs. The model is a small Llama with random weights, which is made
here. Memory is scarce and steps are short, so that prompts are computed in chunks, share
blocks, and are preempted.

In float32 the tokens are equal. In bfloat16 two tokens may be as good as each other: there, each
token's logit is compared with the largest one, as transformers computes them for the tokens
before it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from batchwright import SamplingParams
from batchwright.exceptions import ModelError
from batchwright_engine import Engine

NUM_TOKENS = 24
VOCABULARY = 211
MOST_BELOW = 0.05
"""Largest distance of a bfloat16 token's logit below the largest one, as a share of that."""

VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("float32", "auto", {}),
    ("float32", "auto", {"pipeline_depth": 2}),
    ("float32", "triton", {}),
    ("float32", "torch", {}),
    ("bfloat16", "auto", {}),
    ("bfloat16", "triton", {}),
)
"""Type, attention backend, options of the scheduler."""


def prompts() -> list[list[int]]:
    """Prompts of many lengths; half of them begin with the same two blocks."""
    random = torch.Generator().manual_seed(5)

    def draw(count: int) -> list[int]:
        return torch.randint(1, VOCABULARY, (count,), generator=random).tolist()

    shared = draw(32)
    return [*(draw(count) for count in (1, 7, 16, 45)), *([*shared, *draw(n)] for n in (1, 5, 20))]


def save_model(folder: Path) -> None:
    """Make the model, and write it as safetensors."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # untrained weights make all tokens alike
        parameter.data.mul_(3.0 if parameter.dim() > 1 else 1.0)
    model.save_pretrained(folder)


def reference(folder: Path, dtype: str, device: str) -> Any:
    """The model as transformers computes it."""
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device).eval()


def generated(model: Any, device: str) -> list[list[int]]:
    """Greedy tokens of ``generate()``, a prompt at a time."""
    answers = []
    for prompt in prompts():
        ids = torch.tensor([prompt], device=device)
        done = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=NUM_TOKENS,
            min_new_tokens=NUM_TOKENS,
        )
        answers.append(done[0, len(prompt) :].tolist())
    return answers


def engine(folder: Path, dtype: str, backend: str, device: str, options: dict[str, Any]) -> Engine:
    """An engine in which seven requests cannot all have memory at once."""
    return Engine.from_config(
        {
            "model": {"path": str(folder), "dtype": dtype, "max_model_len": 128},
            "scheduler": {"max_num_seqs": 6, "max_num_batched_tokens": 24, **options},
            "kv": {"num_blocks": 16, "block_size": 16},
            "attention": {"backend": backend},
            "executor": {"torch": {"device": device, "threads": 1}},
        }
    )


def served(made: Engine) -> tuple[list[list[int]], int]:
    """Greedy tokens of the engine, by prompt, and how many preemptions it took."""
    params = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS, ignore_eos=True)
    outputs = {output.request_id: output for output in made.generate(prompts(), params)}
    ordered = [outputs[request_id] for request_id in sorted(outputs, key=_number)]
    preemptions = sum(int(output.metrics["num_preemptions"] or 0) for output in ordered)
    return [list(output.token_ids) for output in ordered], preemptions


def _number(request_id: str) -> int:
    return int("".join(filter(str.isdigit, request_id)))


def distance_below(model: Any, answers: Sequence[Sequence[int]], device: str) -> float:
    """Largest distance of a chosen token's logit below the largest, as a share of that."""
    worst = 0.0
    for prompt, answer in zip(prompts(), answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]], device=device)
        with torch.no_grad():
            logits = model(ids).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits.gather(1, torch.tensor(answer, device=device).unsqueeze(1)).squeeze(1)
        largest = logits.amax(1)
        worst = max(worst, ((largest - chosen) / largest.abs()).max().item())
    return worst


def results(folder: Path, device: str) -> Iterator[dict[str, Any]]:
    """Check variant after variant."""
    models = {dtype: reference(folder, dtype, device) for dtype in ("float32", "bfloat16")}
    expected = generated(models["float32"], device)
    if len({token for answer in expected for token in answer}) < 20:
        raise RuntimeError("the random model answers nearly always alike; it checks nothing")
    for dtype, backend, options in VARIANTS:
        check: dict[str, Any] = {"dtype": dtype, "backend": backend, **options}
        try:
            made = engine(folder, dtype, backend, device, options)
        except ModelError as error:
            reason = str(error).rpartition(f"backend {backend}: ")[2]
            yield {**check, "not_checked": reason.partition(";")[0]}
            continue
        check["attention"] = made.model.attention
        answers, check["num_preemptions"] = served(made)
        made.close()
        check["num_equal"] = sum(map(list.__eq__, answers, expected))
        if dtype == "float32":
            yield {**check, "passed": answers == expected}
        else:
            below = distance_below(models[dtype], answers, device)
            yield {**check, "passed": below <= MOST_BELOW, "distance_below": below}


def line(result: dict[str, Any]) -> str:
    """A result for the terminal."""
    depth = f", pipeline of {result['pipeline_depth']}" if "pipeline_depth" in result else ""
    what = f"  {result['dtype']:<9} {result['backend']}{depth}"
    if "not_checked" in result:
        return f"{what}: not checked: {result['not_checked']}"
    text = (
        f"{what}: {'ok' if result['passed'] else 'WRONG'}, attention {result['attention']}, "
        f"{result['num_equal']} of {len(prompts())} answers equal to generate() in float32, "
        f"{result['num_preemptions']} preemptions"
    )
    if "distance_below" in result:
        text += f", logits at most {result['distance_below']:.1%} below the largest"
    return text


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    done = []
    with TemporaryDirectory() as folder:
        save_model(Path(folder))
        for result in results(Path(folder), options.device):
            print(line(result), flush=True)
            done.append(result)
    if options.json is not None:
        options.json.write_text(json.dumps({"checks": done}), encoding="utf-8")
    checked = [result for result in done if "passed" in result]
    return 0 if checked and all(result["passed"] for result in checked) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
