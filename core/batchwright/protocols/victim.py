"""Victims: the choice of the request that is preempted when blocks run out."""

from __future__ import annotations

from abc import abstractmethod

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView
from batchwright.step_view import Running, StepView


class Victim(Component, Lifecycle):
    """The choice of the request that is preempted when a running one gets no blocks.

    Faults: an exception, or an answer that is not running, falls back to the last running
    request; three in a row end the run with PluginError.
    """

    @abstractmethod
    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        """Choose a running request; ``needy`` itself is allowed.

        Args:
            running: Running requests in order of admission, never empty; iterates and
                reverses without copying.
            needy: The request that gets no blocks.
            view: The step so far.

        Cost class: shortage (once a victim).
        """
