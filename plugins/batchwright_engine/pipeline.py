"""Plans on their way through the executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from batchwright.exceptions import OUTSIDE, ExecutorError
from batchwright.messages import ModelOutput, SchedulerOutput
from batchwright.protocols import Executor
from batchwright_engine.phases import FORWARD, Phases

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Pipeline:
    """A pipeline that computes each plan when its answer is asked for.

    Args:
        executor: Computes them.
        phases: Record of the time of the engine and the executor.

    Attributes:
        plans: Made and not answered, oldest first.
        start: Called when the engine begins a step (see ``Phases.start``).
        lap: Called when the engine has ended a phase (see ``Phases.lap``).
    """

    def __init__(self, executor: Executor, phases: Phases) -> None:
        self._executor = executor
        self._phases = phases
        self.plans: deque[SchedulerOutput] = deque()
        self.start: Callable[[], None] = phases.start
        self.lap: Callable[[str], None] = phases.lap

    def put(self, plan: SchedulerOutput) -> None:
        """Take up a plan, behind those that are here."""
        self.plans.append(plan)

    def take(self) -> ModelOutput:
        """Answer the oldest plan, which leaves then.

        Raises:
            BaseException: The exception of the executor; the plan stays.
        """
        output = self._run(self.plans[0])
        self.plans.popleft()
        return output

    def clear(self) -> None:
        """Drop all plans, since the oldest has failed."""
        self.plans.clear()

    def call(self, work: Callable[[], T]) -> T:
        """Do something else where plans are computed, behind those that are here."""
        return _within(work)

    def close(self) -> None:
        """Drop all plans; one that is being computed is waited for."""
        self.plans.clear()

    def _run(self, plan: SchedulerOutput) -> ModelOutput:
        try:
            return _within(lambda: self._executor.run(plan))
        finally:
            self._phases.lap(FORWARD)


def _within(work: Callable[[], T]) -> T:
    """Call the executor; what would end the program, as ``sys.exit`` does, is its failure.

    Raises:
        ExecutorError: It raised such an exception.
        Exception: It raised any other.
    """
    try:
        return work()
    except (Exception, *OUTSIDE):
        raise
    except BaseException as error:
        raise ExecutorError(f"raised {type(error).__name__}: {error}") from error


class BackgroundPipeline(Pipeline):
    """A pipeline that computes plans on a thread of its own, in order.

    Behind a plan that failed none is computed until ``clear``. As long as one is computed,
    time is the executor's, whatever the engine does meanwhile: no second counts twice.
    """

    def __init__(self, executor: Executor, phases: Phases) -> None:
        from concurrent.futures import ThreadPoolExecutor

        super().__init__(executor, phases)
        self.start, self.lap = self._start, self._lap
        self._thread = ThreadPoolExecutor(1, "batchwright-executor")
        self._answers: dict[int, Future[ModelOutput]] = {}
        self._has_failed = False
        self._num_begun = 0  # written by the engine's thread only
        self._num_ended = 0  # written by this one's only

    def put(self, plan: SchedulerOutput) -> None:
        self._num_begun += 1
        self._answers[plan.step_id] = self._thread.submit(self._compute, plan)
        super().put(plan)

    def take(self) -> ModelOutput:
        step_id = self.plans[0].step_id
        output = self._answers[step_id].result()
        self.plans.popleft()
        del self._answers[step_id]
        return output

    def clear(self) -> None:
        self.call(self._forgive)
        self._answers.clear()
        super().clear()

    def call(self, work: Callable[[], T]) -> T:
        return self._thread.submit(_within, work).result()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        super().close()

    @property
    def _is_busy(self) -> bool:
        """True if a plan is being computed: while it is, ``phases`` belongs to the thread."""
        return self._num_ended < self._num_begun

    def _start(self) -> None:
        self._phases.num_steps += 1
        if not self._is_busy:
            self._phases.skip()

    def _lap(self, phase: str) -> None:
        if not self._is_busy:
            self._phases.lap(phase)

    def _compute(self, plan: SchedulerOutput) -> ModelOutput:
        try:
            if self._has_failed:
                raise ExecutorError("not computed, since the plan before it failed")
            return self._run(plan)
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._num_ended += 1

    def _forgive(self) -> None:
        self._has_failed = False
