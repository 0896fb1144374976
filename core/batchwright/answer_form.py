"""Checks of the form of an executor's answer."""

from __future__ import annotations

from batchwright.messages import ModelOutput

__all__ = ["form_problem", "is_plain"]

_COLUMNS = ("req_ids", "sampled_token_ids")
_TABLES = ("logprobs", "draft_token_ids", "errors", "extras")


def is_plain(output: object) -> bool:
    """Tell whether an answer has the usual form, at a glance."""
    return (
        type(output) is ModelOutput
        and type(output.req_ids) is list
        and type(output.sampled_token_ids) is list
        and type(output.logprobs) is dict
        and type(output.draft_token_ids) is dict
        and type(output.errors) is dict
    )


def form_problem(output: object) -> str | None:
    """Say what is wrong with the form of an answer, whatever it says; or return None."""
    if not isinstance(output, ModelOutput):
        return f"expected a ModelOutput, got {output!r}"
    for names, kind, expected in ((_COLUMNS, (list, tuple), "a list"), (_TABLES, dict, "a dict")):
        for name in names:
            value = getattr(output, name)
            if not isinstance(value, kind):
                return f"{name} is {value!r}, expected {expected}"
    return None
