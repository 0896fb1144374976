"""Conformance of observers, features and commands."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from batchwright.protocols import (
    Control,
    FeatureComponent,
    Gate,
    Limit,
    Observer,
    Resource,
    WorkerSide,
)
from batchwright.scheduler import Scheduler
from batchwright.testing.conformance.base import Conformance
from batchwright.testing.conformance.serving import Arrivals, ServingConformance

ODD_DATA: tuple[Any, ...] = (None, 0, -1.5, "", "x", [], {}, {"": None}, object())


class ObserverConformance(ServingConformance):
    """Checks an observer: it decides nothing, raises nothing, and can be summed up."""

    kind: ClassVar[str] = "observer"

    def test_decisions_are_the_same_without_it(self) -> None:
        """An observer changes nothing."""
        watched = self.serve(self.scheduler(), self.arrivals(2))
        alone = self.serve(self.scheduler(observer=[]), self.arrivals(2))
        assert alone.recorder.plans == watched.recorder.plans

    def test_summary_is_plain(self) -> None:
        """A dict for tables and JSON, at any time."""
        scheduler = self.scheduler()
        observer = scheduler.components.observers[0]
        json.dumps(observer.summary())
        self.serve(scheduler, self.arrivals())
        summary = observer.summary()
        assert isinstance(summary, dict)
        json.dumps(summary)
        scheduler.close()
        json.dumps(observer.summary())

    def test_close_without_a_request(self) -> None:
        """A run may end before it begins."""
        scheduler = self.scheduler()
        for component in scheduler.components:
            component.close()

    def test_snapshot_goes_on_as_if_nothing_had_happened(self) -> None:
        """Observers belong to the run that is watched; a snapshot leaves them out."""
        scheduler = self.scheduler()
        driver = self.driver(scheduler)
        self._arrive(driver, self.arrivals()[0])
        driver.turn()
        Scheduler.restore(scheduler.snapshot(), clock=scheduler.clock).schedule()


class FeatureConformance(ServingConformance):
    """Checks a feature: its parts, its half in the executor, what it says and hears.

    Attributes:
        says: What each request of the tests says to it (``Request.features[name]``);
            None: nothing.
    """

    kind: ClassVar[str] = "feature"
    says: ClassVar[Any] = None

    def arrivals(self, seed: int = 0) -> Arrivals:
        arrivals = super().arrivals(seed)
        for requests in arrivals.values() if self.says is not None else ():
            for request in requests:
                request.features = {self.component.name: self.says}
        return arrivals

    def test_contents_are_parts(self) -> None:
        """Gates, controls, limits, resources and observers."""
        allowed = (Gate, Control, Limit, Resource, Observer)
        for part in self.scheduler().components.features[0].components():
            assert isinstance(part, FeatureComponent)
            assert issubclass(part.component, allowed)

    def test_half_is_made_for_the_executor(self) -> None:
        half = self.scheduler().components.features[0].worker_side()
        assert half is None or isinstance(half, WorkerSide)

    def test_check_answers_whatever_it_is_told(self) -> None:
        """Why a request is refused, or None; odd data is refused, not raised about."""
        scheduler = self.scheduler()
        feature = scheduler.components.features[0]
        (request, *_) = self.arrivals()[0]
        for data in (*ODD_DATA, self.says):
            answer = feature.check(request.view, data)
            assert answer is None or (isinstance(answer, str) and answer), data


class CommandConformance(Conformance):
    """Checks a command: it can be listed and asked for help without doing anything."""

    kind: ClassVar[str] = "command"

    def test_help_is_one_line(self) -> None:
        """What ``batchwright --help`` shows."""
        assert self.component.help
        assert "\n" not in self.component.help

    def test_built_command_has_help(self) -> None:
        """Under its own name, and every subcommand and option of it."""
        command = self.component().build()
        context = command.make_context(command.name, [], resilient_parsing=True)
        assert command.get_help(context)
        for parameter in command.params:
            described = getattr(parameter, "help", None)
            assert described is None or described.strip(), parameter.name

    def test_it_is_listed(self) -> None:
        """Under its name, as ``batchwright --help`` looks for it."""
        assert self.plugins().find(self.kind, self.component.name).cls is self.component
