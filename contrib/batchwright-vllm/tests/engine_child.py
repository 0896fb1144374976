"""Answers prompts with vLLM's engine, and prints their tokens; run in a process of its own.

``python engine_child.py MODEL SCHEDULER_CLS CONFIG``; a dash stands for none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    from vllm import LLM, SamplingParams

    model, scheduler_cls, config = (None if given == "-" else given for given in sys.argv[1:])
    llm = LLM(
        model=model,
        dtype="float32",
        max_model_len=256,
        max_num_seqs=3,
        max_num_batched_tokens=64,
        block_size=32,
        enforce_eager=True,
        skip_tokenizer_init=not (Path(str(model)) / "tokenizer.json").exists(),
        scheduler_cls=scheduler_cls,
        additional_config={"batchwright": config} if config else {},
    )
    prompts = [{"prompt_token_ids": [5 + i + j for j in range(20 + 11 * i)]} for i in range(8)]
    params = [
        SamplingParams(
            temperature=0,
            max_tokens=12,
            ignore_eos=True,
            detokenize=False,
            extra_args={"client": "b" if index == 7 else "a"},
        )
        for index in range(len(prompts))
    ]
    answers = llm.generate(prompts, params, use_tqdm=False)
    print("TOKENS " + json.dumps([list(answer.outputs[0].token_ids) for answer in answers]))


if __name__ == "__main__":
    main()
