"""Drive the scheduler by hand, without a model, and print the tokens of each step.

Two requests decode when a long prompt arrives: it is computed in chunks beside them.

    python examples/drive_scheduler.py
"""

from batchwright import ModelOutput, Request, SamplingParams, Scheduler

scheduler = Scheduler.from_config(
    {
        "scheduler": {"max_num_seqs": 8, "max_num_batched_tokens": 64},
        "kv": {"num_blocks": 1000, "block_size": 16},
    }
)


def add(name: str, num_prompt_tokens: int, max_tokens: int) -> None:
    scheduler.add_request(
        Request(
            request_id=name,
            prompt_token_ids=range(1, num_prompt_tokens + 1),
            sampling_params=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
            cache_salt=name,  # equal prompts, but nothing shared
        )
    )


def step() -> None:
    plan = scheduler.schedule()
    # A model would compute here. It samples a token wherever the last known one is
    # computed, which is where nothing is owed any more.
    sampled = [
        [7] if scheduler.requests[r].num_new_tokens == 0 else [] for r in plan.num_scheduled_tokens
    ]
    outputs = scheduler.update_from_output(
        plan, ModelOutput(req_ids=list(plan.num_scheduled_tokens), sampled_token_ids=sampled)
    )
    ended = {name: finish.detail for name, finish in outputs.finished.items()}
    free = scheduler.kv_manager.num_free_blocks
    print(f"step {plan.step_id}: {plan.num_scheduled_tokens} free blocks {free} ended {ended}")


add("short", 3, max_tokens=6)
add("other", 5, max_tokens=4)
step()
add("long", 150, max_tokens=2)
while scheduler.has_unfinished:
    step()
