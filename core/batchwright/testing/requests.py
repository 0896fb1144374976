"""Requests for tests."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from batchwright.request import Request
from batchwright.sampling_params import SamplingParams


def prompt_tokens(name: str, num_tokens: int, *, vocab_size: int = 997) -> list[int]:
    """Make a prompt: the same for the same name, another one for another name.

    Args:
        name: The name that it is made from.
        num_tokens: Its length (tokens).
        vocab_size: Token ids are below this.
    """
    start = zlib.crc32(name.encode())
    return [(start + index * (start % 89 + 7)) % vocab_size for index in range(num_tokens)]


def make_request(
    request_id: str,
    prompt: int | Iterable[int],
    max_tokens: int | None = 16,
    *,
    ignore_eos: bool = True,
    sampling: dict[str, Any] | None = None,
    **fields: Any,
) -> Request:
    """Make a request as the worked cases write it: ``make_request("A", 30, 40)``.

    Args:
        request_id: Its id; a prompt given by length is made from it.
        prompt: Its length (tokens), or its tokens.
        max_tokens: Most output tokens.
        ignore_eos: True if it goes on past the end of sequence.
        sampling: More fields of SamplingParams.
        fields: More fields of Request.
    """
    tokens = prompt_tokens(request_id, prompt) if isinstance(prompt, int) else prompt
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=ignore_eos, **(sampling or {}))
    return Request(request_id=request_id, prompt_token_ids=tokens, sampling_params=params, **fields)
