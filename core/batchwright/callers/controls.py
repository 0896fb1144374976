"""Calls of step controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import fields

from batchwright.callers.guard import Expected, Guard
from batchwright.protocols import Caps, Control
from batchwright.protocols.component import defines
from batchwright.step_view import StepView

_CAPS: Final = tuple(attribute.name for attribute in fields(Caps))


def _are_caps(answer: object) -> bool:
    if answer is None:
        return True
    return isinstance(answer, Caps) and all(
        value is None or (type(value) is int and value >= 0)
        for value in (getattr(answer, name) for name in _CAPS)
    )


_CAPS_OR_NONE: Final = Expected(_are_caps, "None or Caps with integers >= 0")


class Controls:
    """Asks controls for caps; one that fails leaves the step without its cap."""

    def __init__(self, controls: Sequence[Control], guard: Guard) -> None:
        self._guard = guard
        self._controls = tuple(c for c in controls if defines(c, Control.caps))

    def caps(self, view: StepView) -> list[Caps]:
        """Return the caps for the step that begins."""
        answers = (self._guard.ask(c, c.caps, _CAPS_OR_NONE, view) for c in self._controls)
        return [caps for caps in answers if caps is not None]
