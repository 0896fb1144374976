"""Turns: one call at a time changes a scheduler."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from attrs import define

from batchwright.callers.fault import raise_as_fault
from batchwright.exceptions import StepError
from batchwright.protocols import Component
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import State


class Turns:
    """Lets one call at a time change the scheduler.

    Args:
        state: The requests, by place.
        ending: Ends requests.
        components: Those to which an exception may belong.

    Attributes:
        doing: The call that is going on; empty: none.
        thread: The thread that it is made from.
    """

    def __init__(self, state: State, ending: Ending, components: tuple[Component, ...]) -> None:
        self.state = state
        self.ending = ending
        self.components = components
        self.doing = ""
        self.thread = 0

    def of(self, call: str) -> Turn:
        """Make what begins and ends a call of that name."""
        return Turn(self, call)

    def refuse_within(self, call: str) -> None:
        """Refuse what a component, or another thread, calls in the middle of something else.

        Raises:
            StepError: Something is going on.
        """
        if self.doing and self.thread != get_ident():
            raise StepError(
                f"{call} was called while another thread was in {self.doing}: one thread at a time "
                "uses a Scheduler; others may call signal(), or add to an Engine"
            )
        if self.doing:
            raise StepError(f"{call} was called from within {self.doing}")


@define(eq=False, slots=False)
class Turn:
    """Begins and ends one call: ``with turns.of("schedule()"): ...``.

    At the end of a call the requests end that components wanted to end meanwhile. An
    exception from the code of a component becomes a PluginError that names it.
    """

    _turns: Turns
    _call: str

    def __enter__(self) -> None:
        turns = self._turns
        if turns.doing:
            turns.refuse_within(self._call)
        turns.doing = self._call
        turns.thread = get_ident()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        turns = self._turns
        try:
            if turns.state.to_end:
                turns.ending.end_requested()
        except BaseException as late:
            raise_as_fault(late, turns.components)
            raise
        finally:
            turns.doing = ""
        if error is not None:
            raise_as_fault(error, turns.components)
