"""Hypothesis strategies: configurations that are small enough to hurt, and requests.

Not imported by ``batchwright.testing`` itself, so that it needs no hypothesis.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from hypothesis import strategies as st

from batchwright.request import Request
from batchwright.testing.requests import make_request, prompt_tokens

KEYS = ("x", "y")


@frozen
class RequestPlan:
    """A recipe of a request, for any number of runs of a test.

    Args:
        family: Requests of one family share their beginnings.
        num_shared: Prompt tokens that are the family's.
        num_own: Prompt tokens of its own.
        max_tokens: Most output tokens.
        ignore_eos: True if it goes on past the end of sequence.
        priority: Smaller is more urgent.
        hints: For the ``hint`` gate.
    """

    family: int
    num_shared: int
    num_own: int
    max_tokens: int
    ignore_eos: bool
    priority: int
    hints: dict[str, Any]

    def make(self, request_id: str, *, vocab_size: int, eos_token_id: int) -> Request:
        """Make the request."""
        shared = prompt_tokens(f"family {self.family}", 256, vocab_size=vocab_size)
        own = prompt_tokens(request_id, self.num_own, vocab_size=vocab_size)
        return make_request(
            request_id,
            shared[: self.num_shared] + own,
            self.max_tokens,
            ignore_eos=self.ignore_eos,
            eos_token_id=eos_token_id,
            priority=self.priority,
            hints=self.hints,
        )


@st.composite
def configurations(
    draw: st.DrawFn, *, max_depth: int = 3, policies: tuple[str, ...] = ("fcfs", "priority")
) -> dict[str, Any]:
    """Configurations with tiny pools and budgets, for ``scheduler_from_config``.

    Args:
        draw: Given by hypothesis.
        max_depth: Deepest pipeline.
        policies: Policies to choose from.
    """
    block_size = draw(st.integers(1, 8))
    depth = draw(st.integers(1, max_depth))
    lookahead = draw(st.sampled_from([0, 0, 0, 1, 3])) if depth == 1 else 0
    max_num_seqs = draw(st.integers(1, 6))
    budget = draw(st.integers(max_num_seqs * max(1, lookahead), 40))
    max_model_len = draw(st.integers(depth * (1 + lookahead) + 1, 64))
    chunked = draw(st.booleans())
    if not chunked:
        budget = max(budget, max_model_len)
    gates: list[dict[str, Any]] = [{"use": "hint"}]
    if draw(st.booleans()):
        gates.append({"use": "full-need"})
    if draw(st.booleans()):
        gates.append({"use": "watermark", "fraction": draw(st.sampled_from([0.1, 0.3]))})
    limits = []
    if draw(st.booleans()):
        threshold = draw(st.integers(1, max_model_len))
        limits.append({"use": "long-prefill", "threshold": threshold})
    return {
        "scheduler": {
            "policy": draw(st.sampled_from(policies)),
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": budget,
            "enable_chunked_prefill": chunked,
            "pipeline_depth": depth,
            "num_lookahead_tokens": lookahead,
            "backfill": draw(st.sampled_from([0, 0, 1])),
            "scan_window": draw(st.sampled_from([1, 2, 64])),
        },
        "model": {"max_model_len": max_model_len},
        "kv": {
            "block_size": block_size,
            "num_blocks": draw(st.integers(2, 14)),
            "enable_prefix_caching": draw(st.booleans()),
        },
        "gate": gates,
        "limit": limits,
    }


@st.composite
def request_plans(draw: st.DrawFn) -> RequestPlan:
    """Short requests that share prefixes, some of them deferred or waiting for a key."""
    hints: dict[str, Any] = draw(
        st.one_of(
            st.just({}),
            st.just({}),
            st.just({}),
            st.sampled_from(["park", "skip"]).flatmap(
                lambda what: st.sampled_from(KEYS).map(lambda key: {what: key})
            ),
            st.sampled_from(["hold", "stop"]).flatmap(
                lambda what: st.integers(1, 3).map(lambda n: {what: n})
            ),
        )
    )
    num_shared = draw(st.integers(0, 30))
    return RequestPlan(
        family=draw(st.integers(0, 1)),
        num_shared=num_shared,
        num_own=draw(st.integers(0 if num_shared else 1, 12)),
        max_tokens=draw(st.integers(1, 24)),
        ignore_eos=draw(st.booleans()),
        priority=draw(st.integers(0, 2)),
        hints=hints,
    )
