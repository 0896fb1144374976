"""Calls of admission gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from batchwright.callers.guard import YES_OR_NO, Expected, Guard, defining
from batchwright.protocols import Gate, Need, PrefixHit
from batchwright.request_view import RequestView
from batchwright.step_view import StepView
from batchwright.verdicts import Admit, Defer, Reject, Stop, Verdict, Wait

_VERDICT: Final = Expected(
    lambda answer: isinstance(answer, Verdict), "a Verdict (batchwright.verdicts)"
)
_ARRIVAL_VERDICT: Final = Expected(
    lambda answer: isinstance(answer, Admit | Reject | Wait), "Admit, Reject or Wait"
)
_OPEN_OR_CLOSED: Final = YES_OR_NO._replace(words="True (open) or False (closed)")


class Objection(NamedTuple):
    """The first verdict on a request that is not Admit.

    Args:
        verdict: The verdict.
        reason: Its reason, with the gate's name.
    """

    verdict: Defer | Stop | Reject | Wait
    reason: str


class Gates:
    """Asks gates in the order of the configuration; the first objection counts.

    Faults: in ``open`` the step goes on as if the gate were open; every other one belongs to
    the request, and is raised as a RequestFault.
    """

    def __init__(self, gates: Sequence[Gate], guard: Guard) -> None:
        self._ask = guard.ask
        self._judge = guard.ask_about_request
        self._open = defining(gates, Gate.open)
        self._pre_enqueue = defining(gates, Gate.pre_enqueue)
        self._pre_filter = defining(gates, Gate.pre_filter)
        self._filter = defining(gates, Gate.filter)

    def closed(self, view: StepView) -> str:
        """Return the reason why no request may enter in this step; empty if some may."""
        for gate, is_open in self._open:
            if self._ask(gate, is_open, _OPEN_OR_CLOSED, view) is False:
                return f"gate {gate.name!r} is closed"
        return ""

    def pre_enqueue(self, request: RequestView) -> Objection | None:
        """Return what a gate has against a request that arrives."""
        for gate, method in self._pre_enqueue:
            verdict = self._judge(gate, method, _ARRIVAL_VERDICT, request)
            if not isinstance(verdict, Admit):
                return _objection(gate, verdict)
        return None

    def pre_filter(self, request: RequestView, view: StepView) -> Objection | None:
        """Return what a gate has against the next request, before its prefix is looked up."""
        for gate, method in self._pre_filter:
            verdict = self._judge(gate, method, _VERDICT, request, view)
            if not isinstance(verdict, Admit):
                return _objection(gate, verdict)
        return None

    def filter(
        self, request: RequestView, need: Need, hit: PrefixHit, view: StepView
    ) -> Objection | None:
        """Return what a gate has against the next request, now that its size is known."""
        for gate, method in self._filter:
            verdict = self._judge(gate, method, _VERDICT, request, need, hit, view)
            if not isinstance(verdict, Admit):
                return _objection(gate, verdict)
        return None


def _objection(gate: Gate, verdict: Defer | Stop | Reject | Wait) -> Objection:
    return Objection(verdict, f"gate {gate.name!r}: {verdict.reason}".rstrip(": "))
