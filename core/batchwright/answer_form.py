"""Checks of the form of an executor's answer."""

from __future__ import annotations

from typing import Final

from batchwright.messages import ModelOutput

__all__ = ["form_problem"]

_COLUMN: Final = ((list, tuple), "a list")
_TABLE: Final = ((dict,), "a dict")
_FORMS: Final = {
    "req_ids": _COLUMN,
    "sampled_token_ids": _COLUMN,
    **dict.fromkeys(("logprobs", "draft_token_ids", "errors", "extras"), _TABLE),
}


def form_problem(output: object) -> str | None:
    """Say what is wrong with the form of an answer, whatever it says; or return None."""
    if not isinstance(output, ModelOutput):
        return f"expected a ModelOutput, got {output!r}"
    if (
        type(output.req_ids) is type(output.sampled_token_ids) is list
        and type(output.logprobs) is type(output.draft_token_ids) is dict
        and type(output.errors) is type(output.extras) is dict
    ):
        return None  # at a glance
    for name, (kinds, expected) in _FORMS.items():
        if not isinstance(value := getattr(output, name), kinds):
            return f"{name} is {value!r}, expected {expected}"
    return None
