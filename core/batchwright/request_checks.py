"""Checks of a request's fields, once, when it arrives."""

from __future__ import annotations

from typing import Final

from batchwright.number_bounds import number_problem, shown, token_ids_problem
from batchwright.request import CacheKey, Request

__all__ = ["field_problem"]

_HASHED: Final = ("cache_salt", "adapter")
_TEXTS: Final = (*_HASHED, "client", "group", "slo_class")


def field_problem(request: Request) -> str | None:
    """Say which field holds what a component would choke on in the middle of a step, or None."""
    if not isinstance(request.request_id, str):
        return "request_id must be a string"
    for name in _TEXTS:
        value = getattr(request, name)
        if value is None:
            continue
        is_text, needed = isinstance(value, str), "a string"
        if name in _HASHED:  # JSON may bring a lone surrogate, which has no bytes
            is_text = is_text and value.encode(errors="ignore").decode() == value
            needed = "a string that has a UTF-8 form"
        if not is_text:
            return f"{name} must be {needed}, not {shown(value)}"
    for name in ("priority", "arrival_time", "deadline"):
        if (problem := number_problem(name, getattr(request, name))) is not None:
            return problem
    problem = token_ids_problem("eos_token_id", request.eos_token_id)
    return problem or (_odd_key(request) if request.cache_keys else None)


def _odd_key(request: Request) -> str | None:
    """Return the input beyond tokens that no block's identity can hold, described, or None."""
    most = request.num_prompt_tokens
    for key in request.cache_keys:
        if not isinstance(key, CacheKey) or not isinstance(key.identity, bytes):
            return f"cache_keys must hold CacheKey with an identity in bytes, not {shown(key)}"
        start, stop = key.start, key.stop
        if not (type(start) is type(stop) is int and 0 <= start < stop <= most):
            span = f"positions of the prompt, 0 <= start < stop <= {most}"
            return f"cache_keys must span {span}, not {shown(start)} to {shown(stop)}"
    return None
