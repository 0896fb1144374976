"""What a gate may answer about a request, and a policy about those that run."""

from __future__ import annotations

from typing import Any, Final

from attrs import NOTHING, field, frozen

from batchwright.request_view import RequestView


def _check_text(verdict: Any, attribute: Any, value: object) -> None:
    """Fail where the gate makes its mistake: no caller could release a key that is no string."""
    if not isinstance(value, str) and not (attribute.name == "until" and value is None):
        what = f"{type(verdict).__name__}.{attribute.name}"
        raise TypeError(f"{what} must be a string, not {value!r}")


def _text(default: Any = NOTHING) -> Any:
    return field(default=default, validator=_check_text)


@frozen
class Admit:
    """Go on: the next gate is asked."""


@frozen
class Defer:
    """Pass this request over and look at the next one.

    Args:
        until: The key whose ``release`` can change the answer. The request leaves the
            scan until then and returns to its own place in the queue. With None it is
            looked at again in the next step; ``scheduler.scan_window`` bounds how many
            a step are passed over so.
        reason: Shown wherever it is asked why the request waits.
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
    """Put the request aside until ``signal(key)``; no scan touches it before."""

    key: str = _text()
    reason: str = _text("")


@frozen
class Pause:
    """A running request pauses: it keeps its blocks, but not its seat.

    Its blocks are the first to go when blocks run out; then it is computed again.
    """

    request: RequestView


@frozen
class Release:
    """A running request gives up its seat and its blocks, as in a preemption."""

    request: RequestView


Verdict = Admit | Defer | Stop | Reject | Wait

ADMIT: Final = Admit()
