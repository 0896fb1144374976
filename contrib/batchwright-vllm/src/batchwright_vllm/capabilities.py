"""Capabilities of components that vLLM does not honour exactly."""

from __future__ import annotations

from typing import Final

from batchwright_engine.runtimes import Support

__all__ = ["CAPABILITIES", "as_table"]

_BLOCKS: Final = "vLLM allocates, shares and evicts the blocks of its KV cache"
_MODEL: Final = "vLLM runs the model"
_LOOP: Final = "vLLM's own loop plans the steps: running requests first, then admissions"

CAPABILITIES: Final = {
    **{
        f"kv.{method}": Support("never", _BLOCKS)
        for method in ("allocate", "detach", "free", "lookup", "num_needed")
    },
    **{
        f"eviction.{method}": Support("never", _BLOCKS)
        for method in ("add_cached", "add_empty", "take", "remove")
    },
    "hasher.digest": Support("never", _BLOCKS),
    "preemption.keep": Support("never", "a preempted request of vLLM is computed again"),
    "executor.execute": Support("never", _MODEL),
    "attention.forward": Support("never", _MODEL),
    "feature.components": Support("never", "vLLM has no place for features"),
    "feature.worker_side": Support("never", _MODEL),
    "feature.build_metadata": Support("never", _MODEL),
    "resource.reserve": Support("never", "vLLM admits without a place to reserve resources"),
    "scheduler.schedule": Support("never", _LOOP),
    "scheduler.plan": Support("never", _LOOP),
    "gate.pre_enqueue": Support(
        "degraded", "the request has reached vLLM's queue: a rejection ends it with an error"
    ),
    "policy.running_to_preempt": Support(
        "degraded", "a request that would keep its blocks (keep_blocks) loses them"
    ),
}
"""Capabilities by name, as in ``batchwright_engine.runtimes``."""


def as_table() -> str:
    """Return the records as a table of Markdown, for the how-to."""
    rows = [
        f"| `{name}` | {'in part' if record.level == 'degraded' else 'never'} | {record.why} |"
        for name, record in sorted(CAPABILITIES.items(), key=lambda pair: (pair[1].level, pair[0]))
    ]
    return "\n".join(["| method | honoured | reason |", "|---|---|---|", *rows, ""])
