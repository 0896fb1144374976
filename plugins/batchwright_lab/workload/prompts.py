"""Prompts of given lengths, with given prefixes in common."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

__all__ = ["OWN_TOKENS", "SHARED_TOKENS", "pieces", "unique_prompt"]

OWN_TOKENS: Final = 1 << 30
"""Token ids from here on mark prompts that share nothing."""
SHARED_TOKENS: Final = 1 << 28
"""Token ids from here on mark pieces that several prompts share."""

_PAGE: Final = array("I", [1]) * (1 << 16)


def unique_prompt(number: int, length: int) -> array[int]:
    """A prompt whose prefixes are those of no other number.

    Its first token says which it is: every block behind it is found by the whole prefix.
    """
    prompt = _PAGE[:length] if length <= len(_PAGE) else array("I", [1]) * length
    prompt[0] = OWN_TOKENS + number
    return prompt


def pieces(parts: Iterable[tuple[int, int]]) -> array[int]:
    """A prompt of pieces, each one token repeated.

    Args:
        parts: The token of each piece, and its length (tokens).
    """
    prompt = array("I")
    for token_id, length in parts:
        prompt.extend(array("I", [token_id]) * length)
    return prompt
