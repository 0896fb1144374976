"""Verdicts of gates about waiting requests, and of policies about running ones."""

from __future__ import annotations

from typing import Any, Final

from attrs import NOTHING, field, frozen

from batchwright.request_view import RequestView

__all__ = ["ADMIT", "Admit", "Defer", "Preempt", "Reject", "Stop", "Verdict", "Wait"]


def _check_text(verdict: Any, attribute: Any, value: object) -> None:
    """Fail at the mistake of the gate: no caller could signal a key that is no string."""
    if not isinstance(value, str) and not (attribute.name == "until" and value is None):
        what = f"{type(verdict).__name__}.{attribute.name}"
        raise TypeError(f"{what} must be a string, not {value!r}")


def _text(default: Any = NOTHING) -> Any:
    return field(default=default, validator=_check_text)


@frozen
class Admit:
    """Continue with the next gate; after the last gate the request is admitted."""


@frozen
class Defer:
    """Pass this request over, and look at the next one, until an event in the scheduler.

    Args:
        until: Key whose ``signal`` can change the answer, e.g. at the end of another request.
            The request leaves the scan until then, and returns to its own place in the queue.
            With None it is looked at again in the next step; ``scheduler.scan_window`` bounds
            the number of such requests a step.
        reason: Reason of the wait, for logs and messages.
    """

    until: str | None = _text(None)
    reason: str = _text("")


@frozen
class Stop:
    """Admit no other request in this step."""

    reason: str = _text("")


@frozen
class Reject:
    """End the request with FINISHED_ERROR (in ``pre_enqueue``: refuse it)."""

    reason: str = _text()


@frozen
class Wait:
    """Take the request out of the queue until ``signal(key)``, for an event outside.

    No scan touches the request before, and the progress guard leaves it alone.
    """

    key: str = _text()
    reason: str = _text("")


@frozen
class Preempt:
    """Preempt a running request by the policy.

    Args:
        request: The request.
        keep_blocks: True to pause it: it waits with its blocks. They are taken first when
            blocks run out, and then it is computed again.
    """

    request: RequestView
    keep_blocks: bool = field(default=False, kw_only=True)


Verdict = Admit | Defer | Stop | Reject | Wait

ADMIT: Final = Admit()
