"""Components that tests select: gates that obey hints, a limit that sees all requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Executor, Gate, Limit
from batchwright.testing.executor import ScriptedExecutor
from batchwright.verdicts import ADMIT, Defer, Stop, Verdict, Wait

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView


@define
class Looks:
    """Looks at a request, counted."""

    count: int = 0


class HintGate(Gate):
    """A gate that follows the hints of a request.

    With ``hints = {"park": key}`` it waits for ``signal(key)`` from its arrival; ``"skip":
    key`` defers it at every scan until the key is in ``open_keys``; ``"hold": n`` holds it back
    without a key for n looks, ``"stop": n`` ends the scan at it n times.
    """

    name = "hint"
    Data = Looks

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.open_keys: dict[str, None] = {}

    def let_pass(self, key: str) -> None:
        """Let requests pass that are deferred until a key."""
        self.open_keys[key] = None
        self.ctx.signal(key)

    def pre_enqueue(self, request: RequestView) -> Verdict:
        key = request.hints.get("park")
        return ADMIT if key is None else Wait(key, "as its hints say")

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        key = request.hints.get("skip")
        if key is not None and key not in self.open_keys:
            return Defer(until=key, reason="as its hints say")
        looks = self.ctx.data(request)
        looks.count += 1
        if looks.count <= request.hints.get("hold", 0):
            return Defer(reason=f"look {looks.count}")
        if looks.count <= request.hints.get("stop", 0):
            return Stop(f"look {looks.count}")
        return ADMIT


class VisitEveryone(Limit):
    """A limit that cuts nothing, and is asked about decodes, so that every request is visited."""

    name = "visit-everyone"
    affects_decode = True

    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        return num_tokens


@hookimpl
def batchwright_register_executor() -> list[type[Executor]]:
    """Offer the scripted executor."""
    return [ScriptedExecutor]


@hookimpl
def batchwright_register_gate() -> list[type[Gate]]:
    """Offer the hint gate."""
    return [HintGate]


@hookimpl
def batchwright_register_limit() -> list[type[Limit]]:
    """Offer the limit that sees all requests."""
    return [VisitEveryone]
