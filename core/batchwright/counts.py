"""Running totals over all steps."""

from __future__ import annotations

from attrs import define


@define
class Counts:
    """Running totals of all plans: kept by the core, a few additions a step.

    Args:
        steps: Plans made.
        empty_steps: Of those, plans without tokens.
        scheduled_tokens: Scheduled tokens.
        decode_tokens: Decodes of one token.
        batched_decodes: Of those, decodes of the decode batch, which no visit decided.
        most_used_blocks: KV blocks in use after planning, at most.
    """

    steps: int = 0
    empty_steps: int = 0
    scheduled_tokens: int = 0
    decode_tokens: int = 0
    batched_decodes: int = 0
    most_used_blocks: int = 0
