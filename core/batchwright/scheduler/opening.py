"""How a step begins: what came in is settled, its budget is fixed."""

from __future__ import annotations

from typing import Final

from attrs import fields

from batchwright.protocols import Caps
from batchwright.protocols.component import overrides
from batchwright.scheduler.draft import Draft
from batchwright.scheduler.state import State


class Opening:
    """Opens steps."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._controls = tuple(c for c in state.components.controls if overrides(c, "caps"))

    def settle(self) -> None:
        """Take in what came since the last step: signals and timers."""
        state = self._state
        while state.signals:
            state.has_changed = True
            state.room.wake(state.signals.popleft())
        if state.token_timers.reached:
            for component, view, payload in state.token_timers.take_due():
                state.call_back(component, "on_tokens", view, payload)
        if state.clock_timers.heap:
            for component, payload in list(state.clock_timers.take_due(state.now)):
                state.call_back(component, "on_timer", payload)
        if state.groups.next_expiry <= state.now:
            state.groups.purge(state.now)

    def open_draft(self) -> Draft:
        """Begin a plan under the budget and the controls' caps."""
        state = self._state
        draft = Draft(state.settings.max_num_scheduled_tokens, state.sizes.max_num_seqs)
        for caps in () if state.bypass_choices or not self._controls else self._caps():
            draft.cut(caps)
        return draft

    def _caps(self) -> list[Caps]:
        state = self._state
        if not self._controls or not state.requests:
            return []
        answers = (
            state.faults.ask(
                control,
                "caps",
                (state.view,),
                check=_are_caps,
                expected="None or Caps with integers >= 0",
            )
            for control in self._controls
        )
        return [caps for caps in answers if caps is not None]


_CAPS: Final = tuple(attribute.name for attribute in fields(Caps))


def _are_caps(answer: object) -> bool:
    if answer is None:
        return True
    return isinstance(answer, Caps) and all(
        value is None or (type(value) is int and value >= 0)
        for value in (getattr(answer, name) for name in _CAPS)
    )
