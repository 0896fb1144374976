"""Checks of a request's fields, once, when it arrives."""

from __future__ import annotations

from batchwright.number_bounds import number_problem, shown, span_problem, token_ids_problem
from batchwright.request import CacheKey, Request

__all__ = ["field_problem"]


def field_problem(request: Request) -> str | None:
    """Say which field holds what a component would choke on in the middle of a step, or None."""
    if not isinstance(request.request_id, str):
        return "request_id must be a string"
    for name in () if request.cache_salt is request.adapter is None else ("cache_salt", "adapter"):
        value = getattr(request, name)
        if value is not None and not _is_text(value):
            return f"{name} must be a string that has a UTF-8 form, not {shown(value)}"
    is_anonymous = request.client is request.group is request.slo_class is None
    for name in () if is_anonymous else ("client", "group", "slo_class"):
        value = getattr(request, name)
        if value is not None and not isinstance(value, str):
            return f"{name} must be a string, not {shown(value)}"
    problem = number_problem("priority", request.priority)
    if problem is None and request.arrival_time is not None:
        problem = number_problem("arrival_time", request.arrival_time)
    if problem is None and request.deadline is not None:
        problem = number_problem("deadline", request.deadline)
    problem = problem or token_ids_problem("eos_token_id", request.eos_token_id)
    return problem or (_odd_key(request) if request.cache_keys else None)


def _odd_key(request: Request) -> str | None:
    """Return the input beyond tokens that no block's identity can hold, described, or None."""
    for key in request.cache_keys:
        if not isinstance(key, CacheKey) or not isinstance(key.identity, bytes):
            return f"cache_keys must hold CacheKey with an identity in bytes, not {shown(key)}"
        problem = span_problem("cache_keys", key.start, key.stop, request.num_prompt_tokens)
        if problem is not None:
            return problem
    return None


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # a lone surrogate, as JSON may bring it
        return False
