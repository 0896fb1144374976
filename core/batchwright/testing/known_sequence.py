"""A request as the scripted executor knows it."""

from __future__ import annotations

from array import array

from attrs import Factory, define


@define(eq=False)
class KnownSequence:
    """The executor's state of a request.

    Args:
        tokens: Known tokens, its own samples included.
        num_prompt_tokens: Number of prompt tokens among them.
        table: Its blocks.
        num_computed_tokens: Tokens that were computed before the plan at hand.
        words: Expected content of memory for its tokens, as far as it was asked for.
    """

    tokens: array[int]
    num_prompt_tokens: int
    table: list[int]
    num_computed_tokens: int = 0
    words: array[int] = Factory(lambda: array("Q"))
