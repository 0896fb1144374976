"""Answers the quickstart's prompts one by one with ``model.generate``, for comparison.

Each answer gets as many tokens as it got in the batch; same model, dtype and threads.

    make demo
    python examples/one_by_one.py out/quickstart.jsonl [--every N]
"""

import argparse
import json
import time
from pathlib import Path

from batchwright.config import load_config
from batchwright_engine.executor.cpu_threads import physical_cores, quiet_openmp
from batchwright_engine.executor.embedded_model import prepare
from batchwright_engine.sections import RunSection

quiet_openmp()  # before torch is imported, as the executor does

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("results", type=Path, help="what `batchwright run` has written")
parser.add_argument("--every", type=int, default=1, help="take only each N-th prompt")
arguments = parser.parse_args()

torch.set_num_threads(physical_cores())
config = load_config(Path(__file__).with_name("quickstart.toml"))
folder = prepare(config.model.path)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, config.model.dtype))
model.generation_config.eos_token_id = None  # the length of each answer is known

results = [json.loads(line) for line in arguments.results.read_bytes().splitlines()]


def answer(question: str, num_tokens: int) -> int:
    """The number of tokens in the answer."""
    messages = [
        {"role": "system", "content": config.section(RunSection).system},
        {"role": "user", "content": question},
    ]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    tokens = model.generate(**prompt, do_sample=False, max_new_tokens=num_tokens)
    return tokens.shape[1] - prompt["input_ids"].shape[1]


answer(results[0]["prompt"], 2)  # to warm up
num_tokens, started = 0, time.perf_counter()
for result in results[:: arguments.every]:
    num_tokens += answer(result["prompt"], len(result["token_ids"]))

seconds = time.perf_counter() - started
print(
    f"one by one: {num_tokens / seconds:,.1f} output tokens/s ({num_tokens:,} in {seconds:.1f} s)"
)
