"""Drive a scheduler and an executor by turns, checking everything on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from batchwright.clock import VirtualClock
from batchwright.compat import COMPAT
from batchwright.exceptions import BatchwrightError, InvariantError
from batchwright.testing.assertions import check_idle, check_outputs
from batchwright.testing.executor import ScriptedExecutor
from batchwright.testing.recorder import Recorder
from batchwright.testing.violations import raise_violations
from batchwright.testing.watch import Watch

if TYPE_CHECKING:
    from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
    from batchwright.protocols import Executor, SchedulerBase
    from batchwright.request import Request


T = TypeVar("T")


class Driver:
    """Plans, computes and updates, one call at a time or to the end.

    Every plan and every update is checked (E2, E3, E5, E6, E7, I1 to I6), and
    ``finish`` checks E1 and, with a ScriptedExecutor, E4.

    Args:
        scheduler: The scheduler that is driven.
        executor: The executor; None makes a ScriptedExecutor of the right size.
        depth: Plans that are made before the first of them is updated, at most the
            scheduler's ``pipeline_depth``.
        step_time: Seconds that a step moves the scheduler's clock, if that is virtual.

    Attributes:
        recorder: The record of the run so far.
        requests: All requests that were accepted, in order.
    """

    def __init__(
        self,
        scheduler: SchedulerBase,
        executor: Executor | None = None,
        *,
        depth: int = 1,
        step_time: float = 1.0,
    ) -> None:
        limits = scheduler.sizes
        self.scheduler = scheduler
        self.executor = executor or ScriptedExecutor.standalone(
            limits.num_blocks, limits.block_size
        )
        self.depth = depth
        self.step_time = step_time
        self.recorder = Recorder()
        self.requests: list[Request] = []
        compat = COMPAT[scheduler.settings.compat]
        self.watch = Watch(limits, checks_contents=not compat.keeps_victims_hashes)
        self._watched: dict[str, Request] = {}
        self._planned: deque[SchedulerOutput] = deque()
        self._computed: deque[ModelOutput] = deque()

    @property
    def num_in_flight(self) -> int:
        """Plans that are not updated yet."""
        return len(self._planned)

    def add(self, *requests: Request) -> None:
        """Give requests to the scheduler.

        Raises:
            RequestRefusedError: It refuses one; those before it are in.
        """
        for request in requests:
            self.scheduler.add_request(request)
            self.requests.append(request)
            self.watch.added(request.view)
            self._watched[request.request_id] = request
            self._note_ends()

    def abort(self, request_id: str) -> None:
        """Abort a request."""
        self._guarded("abort", lambda: self.scheduler.abort(request_id))
        self._note_ends()

    def plan(self) -> SchedulerOutput:
        """Make one plan.

        Raises:
            InvariantError: Something is wrong with it.
        """
        plan = self._guarded("schedule", self.scheduler.schedule)
        if isinstance(self.scheduler.clock, VirtualClock):
            self.scheduler.clock.advance(self.step_time)
        self._planned.append(plan)
        self.recorder.planned(plan)
        self._note_ends()
        budget = self.scheduler.settings.max_num_scheduled_tokens
        raise_violations(self.watch.planned(plan, self.scheduler.view, budget))
        return plan

    def compute(self) -> None:
        """Compute the oldest plan that is not computed; no effect if there is none."""
        if len(self._computed) < len(self._planned):
            self._computed.append(self.executor.run(self._planned[len(self._computed)]))

    def update(self) -> StepOutputs:
        """Commit the oldest plan, computed now if it is not yet.

        Raises:
            InvariantError: Something is wrong afterwards.
        """
        if not self._computed:
            self.compute()
        plan, output = self._planned.popleft(), self._computed.popleft()
        outputs = self._guarded(
            "update_from_output", lambda: self.scheduler.update_from_output(plan, output)
        )
        self.recorder.updated(outputs)
        self._note_ends()
        raise_violations(self.watch.updated(outputs, self.scheduler.view))
        return outputs

    def restart(self) -> None:
        """Lose the executor: plans in flight are void, everything is computed again."""
        self._planned.clear()
        self._computed.clear()
        self._guarded("recover", self.scheduler.recover)
        self.executor.recover()
        self._note_ends()

    def turn(self) -> StepOutputs:
        """Plan until ``depth`` plans are in flight, then commit the oldest.

        Without live requests no more steps are planned than it takes to report their ends.
        """
        depth = self.depth if self.scheduler.requests else 1
        while len(self._planned) < depth:
            self.plan()
        return self.update()

    def finish(self, *, max_steps: int = 10_000) -> None:
        """Go on until every request has ended, then check E1 and E4.

        Args:
            max_steps: A run that takes more of them hangs.

        Raises:
            InvariantError: It hangs, or something is wrong.
        """
        for _ in range(max_steps):
            if not self.scheduler.has_unfinished:
                break
            self.turn()
        else:
            raise InvariantError("E6", f"after {max_steps} steps: {self._standing()}")
        check_idle(self.scheduler)
        if isinstance(self.executor, ScriptedExecutor):
            check_outputs(
                self.requests,
                self.recorder.outputs,
                self.executor.model,
                max_model_len=self.scheduler.sizes.max_model_len,
            )

    def _note_ends(self) -> None:
        for request in [r for r in self._watched.values() if r.finish is not None]:
            del self._watched[request.request_id]
            raise_violations(self.watch.ended(request.view))

    def _guarded(self, what: str, call: Callable[[], T]) -> T:
        """Call the scheduler: whatever it raises, but for what it announces, is E7."""
        try:
            return call()
        except BatchwrightError:
            raise
        except Exception as error:
            raise InvariantError(
                "E7", f"{what}() raised {type(error).__name__}: {error}"
            ) from error

    def _standing(self) -> str:
        return ", ".join(
            f"{r.request_id!r} {r.status.name} {r.waiting_reason}".rstrip()
            for r in self.scheduler.requests.values()
        )


def drive(
    scheduler: SchedulerBase,
    arrivals: Iterable[Request] | Mapping[int, Iterable[Request]],
    executor: Executor | None = None,
    *,
    depth: int = 1,
    max_steps: int = 10_000,
) -> Driver:
    """Run requests to their ends, and check E1 to E7 on the way.

    Args:
        scheduler: The scheduler that is driven.
        arrivals: Requests that are there from the start, or by the step that they
            arrive before.
        executor: The executor; None makes a ScriptedExecutor.
        depth: Plans that are made before the first of them is updated.
        max_steps: A run that takes more of them hangs.

    Returns:
        The driver, with ``recorder`` and ``requests``.

    Raises:
        InvariantError: Something is wrong.
    """
    driver = Driver(scheduler, executor, depth=depth)
    by_step = arrivals if isinstance(arrivals, Mapping) else {0: arrivals}
    for step in range(max(by_step, default=0) + 1):
        driver.add(*by_step.get(step, ()))
        driver.turn()
    driver.finish(max_steps=max_steps)
    return driver
