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
from batchwright_plugins.executor.cpu_threads import physical_cores, quiet_openmp
from batchwright_plugins.executor.embedded_model import prepare

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

results = [json.loads(line) for line in arguments.results.read_bytes().splitlines()]
num_tokens, started = 0, time.perf_counter()
for result in results[:: arguments.every]:
    messages = [
        {"role": "system", "content": config.run.system},
        {"role": "user", "content": result["prompt"]},
    ]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    wanted = len(result["token_ids"])
    model.generate(**prompt, do_sample=False, min_new_tokens=wanted, max_new_tokens=wanted)
    num_tokens += wanted

seconds = time.perf_counter() - started
print(
    f"one by one: {num_tokens / seconds:,.1f} output tokens/s ({num_tokens:,} in {seconds:.1f} s)"
)
