"""Turns: one call at a time changes a scheduler."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from attrs import define, field

from batchwright.callers.fault import raise_as_fault
from batchwright.exceptions import StepError
from batchwright.protocols import Component
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.state import State


@define(eq=False, slots=False)
class Turns:
    """Lets one call at a time change the scheduler: ``with turns.begin("schedule()"): ...``.

    At the end of a call the requests end that components wanted to end meanwhile. An
    exception from the code of a component becomes a PluginError that names it.

    Args:
        state: The requests, by place.
        ending: Ends requests.
        components: Those to which an exception may belong.

    Attributes:
        doing: The call that is going on; empty: none.
    """

    _state: State
    _ending: Ending
    _components: tuple[Component, ...]
    doing: str = field(init=False, default="")
    _thread: int = field(init=False, default=0)

    def begin(self, call: str) -> Turns:
        """Begin a call of that name; leaving the context ends it.

        Raises:
            StepError: A component, or another thread, calls in the middle of something else.
        """
        if self.doing and self._thread != get_ident():
            raise StepError(
                f"{call} was called while another thread was in {self.doing}: one thread at a time "
                "uses a Scheduler; others may call signal(), or add to an Engine"
            )
        if self.doing:
            raise StepError(f"{call} was called from within {self.doing}")
        self.doing, self._thread = call, get_ident()
        return self

    def __enter__(self) -> None:
        """The call has begun with ``begin``."""

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
            raise_as_fault(late, self._components)
            raise
        finally:
            self.doing = ""
        if error is not None:
            raise_as_fault(error, self._components)
