"""Run a workload through the engine on a virtual clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from batchwright.component_factory import naming
from batchwright.exceptions import ConfigError, RequestRefusedError
from batchwright.protocols import Workload
from batchwright.protocols.component import overrides
from batchwright.request import Request
from batchwright_engine.answering.batch import ERROR, REFUSED
from batchwright_engine.signals import interrupt
from batchwright_lab.simulation.fast_forward import FastForwarder

if TYPE_CHECKING:
    from types import FrameType

    from batchwright.protocols import Arrival, OutputOracle
    from batchwright.request import Finish
    from batchwright.request_view import RequestView
    from batchwright_engine.engine import Engine
    from batchwright_lab.sections import SimulationSection
    from batchwright_lab.simulation.arriving import Arriving
    from batchwright_lab.simulation.caps import Caps

__all__ = ["STUCK", "Simulation"]

STUCK: Final = "every request waits for a key, and nothing will signal one"

_FOREVER: Final = math.inf


class Simulation:
    """Requests arrive, the engine steps, time goes on by what the steps take.

    The engine is the one that serves; only its clock and its executor are simulated.

    Args:
        engine: Built by ``Assembly.simulator`` on a VirtualClock.
        workload: The workload, for arrivals that follow an end.
        arriving: The arrivals.
        caps: Caps on output tokens.
        section: When to stop.
        on_refused: Called for requests that are never added, with the reason.

    Raises:
        ConfigError: Nothing arrives, or the executor does not accept lengths of answers.

    Attributes:
        reasons: Number of ended requests by reason.
        first_failure: Reason of the first request that was refused or ended in an error.
        stopped_by: Reason of an end before that of the workload; empty if there is none.
        is_closed_loop: True if what arrives depends on what has ended.
        is_overloaded: True if more arrived than could be served.
        signal: The signal that stopped it, or None.
    """

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        arriving: Arriving,
        caps: Caps,
        section: SimulationSection,
        on_refused: Callable[[RequestView, str], None] | None = None,
    ) -> None:
        self.engine = engine
        self.reasons: Counter[str] = Counter()
        self.first_failure = ""
        self.stopped_by = ""
        self.signal: int | None = None
        self.is_overloaded = False
        self.arriving = arriving
        self._scheduler = engine.scheduler
        self._clock = engine.scheduler.clock
        self._workload = workload
        self._caps = caps
        self._forwarder = (
            FastForwarder(engine.scheduler, engine.executor) if section.fast_forward else None
        )
        self._until = section.until or _FOREVER
        self._max_queue = section.max_queue or _FOREVER
        self._is_limited = section.until is not None or section.max_queue is not None
        self.is_closed_loop = overrides(workload, "on_finish")
        self._on_refused = on_refused
        if arriving.next_time == _FOREVER:
            problem = "holds no request that arrives: there is nothing to simulate"
            raise ConfigError(problem, path=workload.ctx.path)
        lengths = engine.executor.output_oracle
        if lengths is None:
            problem = f"{engine.executor.ctx.label} cannot be told how long answers are"
            raise ConfigError(problem, path="simulation.executor")
        self._lengths: OutputOracle = lengths
        self._live: dict[str, tuple[Arrival, Request]] = {}
        self._eos = engine.model.eos_token_ids

    @property
    def num_failed(self) -> int:
        """Requests that were refused or ended in an error."""
        return self.reasons[REFUSED] + self.reasons[ERROR]

    @property
    def has_served_none(self) -> bool:
        """True if requests have ended, and each of them failed."""
        return 0 < self.num_failed == self.reasons.total()

    def run(self) -> None:
        """Run until nothing is left, or something stops it.

        Raises:
            ExecutorError: The executor could not be brought back.
            PluginError: A component failed too often in a row.
        """
        clock, arriving = self._clock, self.arriving
        while not self.stopped_by:
            if arriving.next_time <= clock.now():
                self._let_arrive()
            if self.engine.has_unfinished:
                self._step()
            elif arriving.next_time < _FOREVER:
                self._wait_until(arriving.next_time)
            else:
                return
            if self._is_limited:
                self._check_limits()

    def stop(self, number: int, frame: FrameType | None = None) -> None:
        """End it before the next step; called a second time, at once."""
        if self.signal is not None:
            interrupt(number)
        self.signal = number
        self.stopped_by = "interrupted"

    def _step(self) -> None:
        if self._forwarder is not None:
            until = self.arriving.next_time
            ended = self._forwarder.run(until if until < self._until else self._until)
            if ended is not None:
                if ended:
                    self._note_ends(ended)
                return
        plan, outputs = self.engine.advance()
        if outputs is None:
            return
        if outputs.finished:
            self._note_ends(outputs.finished)
        elif plan.is_empty:
            self._idle()

    def _note_ends(self, finished: Mapping[str, Finish]) -> None:
        for request_id, finish in finished.items():
            if finish.reason == ERROR:
                self.first_failure = self.first_failure or finish.detail
            self._end(request_id, finish.reason)

    def _idle(self) -> None:
        """Nothing could be computed: go on to what comes next."""
        moment = min(self.arriving.next_time, self._scheduler.next_timer or _FOREVER)
        if moment < _FOREVER:
            self._wait_until(moment)
        elif not self._scheduler.has_signals:
            view = self._scheduler.view
            if 0 < view.num_parked == view.num_waiting and not view.num_running:
                self.stopped_by = STUCK

    def _wait_until(self, moment: float) -> None:
        self._clock.wait_until(min(moment, self._until))

    def _let_arrive(self) -> None:
        for arrival in self.arriving.due(self._clock.now()):
            self._add(arrival)

    def _add(self, arrival: Arrival) -> None:
        number = self.arriving.num_taken - 1
        request_id = arrival.request_id or str(number)
        request = Request(
            request_id=request_id,
            prompt_token_ids=arrival.prompt_token_ids,
            sampling_params=self._caps.params(arrival),
            eos_token_id=self._eos,
            arrival_time=arrival.time,
            priority=arrival.priority,
            client=arrival.client,
            group=arrival.group,
            slo_class=arrival.slo_class,
            deadline=None if arrival.deadline is None else arrival.time + arrival.deadline,
            hints=arrival.hints,
        )
        token_id = arrival.output_token_id or 2 + number
        if request_id not in self._live:
            self._lengths.expect(request_id, arrival.num_output_tokens, token_id)
        try:
            self.engine.submit(request)
        except RequestRefusedError as error:
            self._refuse(arrival, request, error.reason)
        else:
            self._live[request_id] = arrival, request

    def _refuse(self, arrival: Arrival, request: Request, reason: str) -> None:
        self.reasons[REFUSED] += 1
        self.first_failure = self.first_failure or reason
        if self._on_refused is not None:
            self._on_refused(request.view, reason)
        if request.request_id not in self._live:
            self._lengths.forget(request.request_id)
        if self.is_closed_loop:
            with naming(self._workload, Workload.on_refuse):
                self.arriving.follow(self._workload.on_refuse(arrival, self._clock.now()))

    def _end(self, request_id: str, reason: str) -> None:
        arrival, request = self._live.pop(request_id)
        self.reasons[reason] += 1
        if self.is_closed_loop:
            with naming(self._workload, Workload.on_finish):
                self.arriving.follow(self._workload.on_finish(arrival, request.view))
        request.drop_view()

    def _check_limits(self) -> None:
        now, num_waiting = self._clock.now(), self._scheduler.num_waiting
        if now >= self._until:
            self.stopped_by = self.stopped_by or f"{self._until:g} simulated seconds are over"
        if num_waiting > self._max_queue:
            self.is_overloaded = True
            self.stopped_by = (
                f"overload: {num_waiting:,} requests wait at {now:,.1f} s; "
                f"{self.arriving.num_taken / now:,.2f} arrive a second, "
                f"{self.reasons.total() / now:,.2f} end"
                if now
                else f"overload: {num_waiting:,} requests arrive at once"
            )
