"""Executors: compute a plan."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from batchwright import messages
from batchwright.context import Context
from batchwright.exceptions import OUTSIDE, ExecutorError, InvariantError
from batchwright.protocols.component import Component
from batchwright.protocols.feature import WorkerSide
from batchwright.protocols.model import ModelInfo, ModelSettings


class OutputOracle(Protocol):
    """Answers of requests that a simulated executor knows before it computes."""

    def expect(self, request_id: str, num_output_tokens: int, token_id: int) -> None:
        """Set the answer of a future request.

        Args:
            request_id: Its id.
            num_output_tokens: Tokens until it ends by itself, the one that ends it included.
            token_id: The token that it repeats until then.
        """

    def forget(self, request_id: str) -> None:
        """Drop the answer of a request."""

    def output_tokens(self, request_id: str) -> int | None:
        """Return the output tokens of a live request if it is not cut; None: unknown."""


@contextmanager
def _named(feature: str, method: str) -> Iterator[None]:
    """Name the feature whose worker side fails: else it would look like the executor's fault."""
    try:
        yield
    except OUTSIDE:
        raise
    except BaseException as error:
        what = f"raised {type(error).__name__}: {error}"
        raise ExecutorError(f"feature {feature!r}: {method}() {what}") from error


class PhaseNotes:
    """Notes of the time that the phases of a step take; by default they go nowhere."""

    def lap(self, phase: str) -> None:
        """End a phase: it took the time since the last one ended."""


class Executor(Component):
    """Compute plans: keep the state of each request from the deltas, and return tokens.

    Order of calls: ``load`` once, ``allocate_kv`` once, then for every plan in order
    ``remove_request`` for each request that has ended, ``add_request`` for each new one,
    and ``execute``; ``restart`` after a failure, ``close`` at the end.

    Faults: an exception in ``add_request`` ends that request alone. The base class
    answers it in ``ModelOutput.errors``, calls ``remove_request``, and leaves the request
    out of this plan and of those behind it that were made before the answer came. An
    exception in ``execute`` is a failure of the step: every request in flight is put
    back to be computed again, ``restart`` is called, and the run goes on; more than
    ``executor.max_restarts`` in a row end it with ExecutorError. A fault in computing
    that belongs to one request is answered in ``ModelOutput.errors`` instead.

    Attributes:
        phases: Record of the time of parts of ``execute`` (``phases.lap``); the engine sets its
            own here.
    """

    runs_in_background: ClassVar[bool] = False
    """True if plans may be computed on another thread, while the next one is made.

    With ``scheduler.pipeline_depth`` over 1 the engine then calls ``run`` and ``recover`` on
    a thread of its own: one call at a time, plans in their order, none
    behind one that failed before ``recover``. ``load`` and ``allocate_kv`` come before that,
    and ``close`` after it, on other threads. Worker sides of features are called there, too. It
    pays if ``execute`` releases Python's lock for most of its time.
    """

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._halves: dict[str, WorkerSide] = {}
        self._untaken: dict[str, str] = {}
        """Reasons, by request that could not be taken up, until its end is reported."""
        self.phases = PhaseNotes()

    def install(self, name: str, half: WorkerSide | None) -> None:
        """Add the worker side of a feature; called before the first plan, once a feature."""
        if half is not None:
            self._halves[name] = half

    @property
    def output_oracle(self) -> OutputOracle | None:
        """Answers that are known before they are computed; None if there are none."""
        return None

    @property
    def has_worker_sides(self) -> bool:
        """True if there are worker sides: each may answer after any plan."""
        return bool(self._halves)

    def run(self, plan: messages.SchedulerOutput) -> messages.ModelOutput:
        """Compute one plan with the worker sides of features; called by the engine."""
        for name, half in self._halves.items():
            with _named(name, "before_step"):
                half.before_step(plan, plan.extras.get(name))
        self._exchange_requests(plan)
        output = self._execute_others(plan) if self._untaken else self.execute(plan)
        for name, half in self._halves.items():
            with _named(name, "after_step"):
                extra = half.after_step(plan, output)
            if extra is not None:
                output.extras[name] = extra
        return output

    def recover(self) -> None:
        """Restart, with the worker sides of features; called by the engine after a failure."""
        self._untaken.clear()
        self.restart()
        for name, half in self._halves.items():
            with _named(name, "on_restart"):
                half.on_restart()

    def inspect(self, settings: ModelSettings) -> ModelInfo | None:
        """Return the facts that ``load`` would return, as far as no weights are needed.

        Nothing starts. Unknown facts are 0 or empty; None: all are unknown.

        Raises:
            ModelError: The model could not be served; it has the reason.
        """
        return None

    @abstractmethod
    def load(self, settings: ModelSettings) -> ModelInfo:
        """Load the model.

        Raises:
            ModelError: It cannot be found, or not be served; it has the reason.
        """

    @abstractmethod
    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        """Allocate the KV cache: blocks 0 .. num_blocks - 1 of block_size tokens."""

    def _exchange_requests(self, plan: messages.SchedulerOutput) -> None:
        """Drop the requests that have ended, and take up the new ones, one by one."""
        for request_id in plan.finished_req_ids:
            self._untaken.pop(request_id, None)
            self.remove_request(request_id)
        for request in plan.scheduled_new_reqs:
            self._untaken.pop(request.req_id, None)
            try:
                self.add_request(request)
            except (InvariantError, *OUTSIDE):
                raise
            except BaseException as error:
                what = f"{type(error).__name__}: {error}"
                self._untaken[request.req_id] = f"{self.ctx.label} could not take it up: {what}"
                self.remove_request(request.req_id)

    def _execute_others(self, plan: messages.SchedulerOutput) -> messages.ModelOutput:
        """Compute a plan without the requests that could not be taken up."""
        errors = {name: e for name, e in self._untaken.items() if name in plan.num_scheduled_tokens}
        output = self.execute(plan.without(errors) if errors else plan)
        output.req_ids = [*output.req_ids, *errors]
        output.sampled_token_ids = [*output.sampled_token_ids, *([] for _ in errors)]
        output.errors = {**output.errors, **errors}
        return output

    @abstractmethod
    def add_request(self, request: messages.NewRequestData) -> None:
        """Take up a request: called once, before the first plan that computes it.

        It may be called again after ``restart``, and for a new request of the same id after
        ``remove_request``. An exception ends this request alone.

        Cost class: event.
        """

    @abstractmethod
    def remove_request(self, request_id: str) -> None:
        """Drop the state of a request; unknown ids are ignored.

        Cost class: event.
        """

    @abstractmethod
    def execute(self, plan: messages.SchedulerOutput) -> messages.ModelOutput:
        """Compute one plan. Plans without tokens are given too.

        Its new requests are added and its ended ones removed before this; ``run`` does
        both, so call that to have a plan computed.

        Cost class: step.
        """

    def fast_forward(
        self, num_tokens: Mapping[str, int], max_steps: int, until: float
    ) -> tuple[list[array[int]], list[int], float]:
        """Compute steps in which the same requests decode; at least one.

        An executor that overrides it knows the results and times of these steps beforehand, as
        simulated ones do. The clock is moved as if the steps were computed one by one.

        Args:
            num_tokens: Known tokens by request id; all but the last of each are computed.
            max_steps: Steps at most.
            until: No step after the first begins at this time or later (seconds).

        Returns:
            New tokens of each request, one a step. The places of those whose last token may
            end them; no other token does. When the last step began (seconds).

        Cost class: once for many steps.
        """
        raise NotImplementedError  # asked only where it is overridden

    @abstractmethod
    def restart(self) -> None:
        """Forget every request and be ready again; the KV cache's content is lost."""
