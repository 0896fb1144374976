"""What a gate may answer about a request."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Admit:
    """Go on: the next gate is asked."""


@frozen
class Skip:
    """Pass this request over and look at the next one.

    Args:
        until: The key whose ``release`` can change the answer. The request leaves the
            scan until then and returns to its own place in the queue. With None it is
            looked at again in the next step; ``scheduler.scan_window`` bounds how many
            a step are passed over so.
        reason: Shown wherever it is asked why the request waits.
    """

    until: str | None = None
    reason: str = ""


@frozen
class Stop:
    """Admit nobody else in this step."""

    reason: str = ""


@frozen
class Reject:
    """End the request with FINISHED_ERROR (in ``submit``: refuse it)."""

    reason: str


@frozen
class Park:
    """Put the request aside until ``notify(key)``; no scan touches it before."""

    key: str
    reason: str = ""


Verdict = Admit | Skip | Stop | Reject | Park

ADMIT: Final = Admit()
