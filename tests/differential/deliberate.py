"""Every case in which Batchwright means to decide differently from vLLM: a closed list.

Each has a minimal workload. docs/explanation/differences-from-vllm.md explains them.
"""

from __future__ import annotations

from attrs import frozen

from differential.workload import EOS, Job, Setup, Workload

__all__ = ["DELIBERATE", "Deliberate"]


@frozen(kw_only=True)
class Deliberate:
    """One difference.

    Args:
        workload: A small run that shows it.
        reason: Why, in a sentence.
        matched: Whether ``scheduler.compat`` takes vLLM's decision over; not where that
            is to wait for ever.
    """

    workload: Workload
    reason: str
    matched: bool = True

    @property
    def name(self) -> str:
        return self.workload.family


SMALL = Setup(block_size=4, num_blocks=6, max_num_batched_tokens=16, max_model_len=64)

KV_CAPACITY = Deliberate(
    workload=Workload(
        family="kv-capacity",
        setup=SMALL,
        jobs=(
            Job(name="r0", prompt=((0, 12),), max_tokens=16),
            Job(name="r1", prompt=((1, 4),), max_tokens=2, step=3),
        ),
    ),
    reason="r0 outgrows the pool. vLLM preempts it and can never admit it again, nor "
    "r1 behind it; here it ends with length (kv_capacity) and r1 is served.",
    matched=False,
)

REFUSED = Deliberate(
    workload=Workload(
        family="refused",
        setup=SMALL,
        jobs=(
            Job(name="r0", prompt=((0, 24),), max_tokens=2),
            Job(name="r1", prompt=((1, 4),), max_tokens=2),
        ),
    ),
    reason="r0's prompt is larger than the pool. vLLM queues it, and no request behind it is "
    "ever served; here add_request() refuses it.",
    matched=False,
)

VICTIM_HASHES = Deliberate(
    workload=Workload(
        family="victim-hashes",
        setup=Setup(
            block_size=4, num_blocks=9, max_num_batched_tokens=12, max_model_len=64,
            policy="priority", threshold=8,
        ),
        jobs=(
            Job(name="r0", prompt=((0, 28),), max_tokens=1, priority=5),
            Job(name="r1", prompt=((1, 4),), max_tokens=3, step=1),
        ),
    ),
    reason="A victim that was planned earlier in the step has published a block that "
    "will not be computed. vLLM leaves it findable, so that a later request reads KV "
    "that was never written; here it is taken back.",
)  # fmt: skip

EQUAL_PRIORITIES = Deliberate(
    workload=Workload(
        family="equal-priorities",
        setup=Setup(
            block_size=4, max_num_seqs=1, max_num_batched_tokens=16, max_model_len=64,
            policy="priority",
        ),
        jobs=(
            Job(name="r2", prompt=((0, 4),), max_tokens=2),
            Job(name="r1", prompt=((1, 4),), max_tokens=2),
        ),
    ),
    reason="Requests of equal priority and arrival time. vLLM serves them in the order of "
    "their ids, which clients or chance choose; here in the order of insertion.",
)  # fmt: skip

EARLY_STOP = Deliberate(
    workload=Workload(
        family="early-stop",
        setup=SMALL,
        jobs=(
            Job(
                name="r0", prompt=((0, 4),), max_tokens=6, min_tokens=4,
                specials=((1, EOS),), masked=False,
            ),
        ),
    ),
    reason="A sampler lets an end-of-sequence token through before min_tokens. vLLM ends "
    "the request; here min_tokens holds for every sampler.",
)  # fmt: skip

HALF_PROMPTS = Deliberate(
    workload=Workload(
        family="half-prompts",
        setup=Setup(
            block_size=4, num_blocks=6, max_num_batched_tokens=16, max_model_len=64, threshold=4
        ),
        jobs=(
            Job(name="r0", prompt=((0, 12),), max_tokens=1),
            Job(name="r1", prompt=((1, 12),), max_tokens=1),
        ),
    ),
    reason="Two prompts of 3 blocks in a pool of 5, computed in pieces. vLLM compares r1 with "
    "what is free now, admits it and preempts it two steps later; here what r0 still needs "
    "counts, and r1 waits until it can go on.",
)  # fmt: skip

DELIBERATE = (
    KV_CAPACITY, REFUSED, VICTIM_HASHES, EQUAL_PRIORITIES, EARLY_STOP, HALF_PROMPTS
)  # fmt: skip
