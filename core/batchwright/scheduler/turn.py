"""Turns: one call at a time changes a scheduler."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from batchwright.callers.lifecycle import raise_as_fault
from batchwright.exceptions import StepError
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import State


class Turn:
    """Begins and ends each call: ``with turn("schedule()"): ...``.

    At the end of a call the requests end that components wanted to end meanwhile. An
    exception from the code of a component becomes a PluginError that names it.

    Args:
        state: The requests, by place.
        ending: Ends requests.

    Attributes:
        doing: The call that is going on; empty: none.
    """

    def __init__(self, state: State, ending: Ending) -> None:
        self._state = state
        self._ending = ending
        self._thread = 0
        self.doing = ""

    def __call__(self, call: str) -> Turn:
        if self.doing:
            self.refuse_within(call)
        self.doing = call
        self._thread = get_ident()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._state.to_end:
                self._ending.end_requested()
        except BaseException as late:
            raise_as_fault(late, self._state.components)
            raise
        finally:
            self.doing = ""
        if error is not None:
            raise_as_fault(error, self._state.components)

    def refuse_within(self, call: str) -> None:
        """Refuse what a component, or another thread, calls in the middle of something else.

        Raises:
            StepError: Something is going on.
        """
        if self.doing and self._thread != get_ident():
            raise StepError(
                f"{call} was called while another thread was in {self.doing}: one thread at a time "
                "uses a Scheduler; others may call notify() and release(), or add to an Engine"
            )
        if self.doing:
            raise StepError(f"{call} was called from within {self.doing}")
