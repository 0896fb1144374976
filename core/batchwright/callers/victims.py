"""Calls of the victim plugin and of the preemption plugin."""

from __future__ import annotations

from typing import Final

from attrs import define

from batchwright.callers.guard import Expected, Guard
from batchwright.protocols import Preemption, Victim
from batchwright.request_view import RequestView
from batchwright.step_view import Running, StepView

_NO_TOKENS: Final = Expected(lambda answer: answer == 0, "0 kept tokens")


@define(eq=False, slots=False)
class Victims:
    """Asks for the request that is preempted, and for what is kept of it.

    Faults: the last running request is preempted, and none of its tokens is kept.
    """

    _victim: Victim
    _preemption: Preemption
    _guard: Guard

    def choose(self, running: Running, request: RequestView, view: StepView) -> RequestView:
        """Return the running request that is preempted for another one.

        Args:
            running: Running requests in order of admission, not empty.
            request: The request that needs blocks, or a seat.
            view: The step so far.
        """
        expected = Expected(
            lambda chosen: chosen is not None and chosen in running, "a running request"
        )
        victim = self._victim
        chosen = self._guard.ask(victim, victim.choose, expected, running, request, view)
        return chosen if chosen is not None else next(reversed(running))

    def keep(self, request: RequestView, block_ids: list[int]) -> int:
        """Return the tokens of a preempted request whose KV is kept elsewhere."""
        plugin = self._preemption
        return self._guard.ask(plugin, plugin.keep, _NO_TOKENS, request, block_ids) or 0
