"""Calls of step controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import astuple

from batchwright.callers.guard import Expected, Guard, defining
from batchwright.protocols import Caps, Control
from batchwright.step_view import StepView


def _are_caps(answer: object) -> bool:
    if not isinstance(answer, Caps):
        return answer is None
    caps = astuple(answer, recurse=False)
    return all(cap is None or (type(cap) is int and cap >= 0) for cap in caps)


_CAPS_OR_NONE: Final = Expected(_are_caps, "None or Caps with integers >= 0")


class Controls:
    """Asks controls for caps; one that fails leaves the step without its cap."""

    def __init__(self, controls: Sequence[Control], guard: Guard) -> None:
        self._guard = guard
        self._controls = defining(controls, Control.caps)

    def caps(self, view: StepView) -> list[Caps]:
        """Return the caps for the step that begins."""
        answers = (self._guard.ask(c, caps, _CAPS_OR_NONE, view) for c, caps in self._controls)
        return [caps for caps in answers if caps is not None]
