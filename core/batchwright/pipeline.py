"""Plans on their way through the executor, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from batchwright.exceptions import ExecutorError
from batchwright.messages import ModelOutput, SchedulerOutput
from batchwright.phases import FORWARD, Phases
from batchwright.protocols import Executor

T = TypeVar("T")


class Pipeline:
    """Plans that are made and not answered; each is computed when its answer is taken.

    Args:
        executor: Computes them.
        phases: Where the engine and the executor note what time goes to.
    """

    def __init__(self, executor: Executor, phases: Phases) -> None:
        self._executor = executor
        self._phases = phases
        self._plans: deque[tuple[SchedulerOutput, Callable[[], ModelOutput]]] = deque()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def oldest(self) -> SchedulerOutput:
        return self._plans[0][0]

    def put(self, plan: SchedulerOutput) -> None:
        """Take up a plan, behind those that are here."""
        self._plans.append((plan, self._begin(plan)))

    def take(self) -> ModelOutput:
        """Answer the oldest plan, which leaves then.

        Raises:
            BaseException: What the executor raised; the plan stays.
        """
        output = self._plans[0][1]()
        self._plans.popleft()
        return output

    def clear(self) -> None:
        """Drop all plans, since the oldest has failed."""
        self._plans.clear()

    def call(self, work: Callable[[], T]) -> T:
        """Do something else where plans are computed, behind those that are here."""
        return work()

    def close(self) -> None:
        """Drop all plans; one that is being computed is waited for."""
        self._plans.clear()

    def start(self) -> None:
        """The engine begins a step; see ``Phases.start``."""
        self._phases.start()

    def lap(self, phase: str) -> None:
        """The engine has ended a phase; see ``Phases.lap``."""
        self._phases.lap(phase)

    def _begin(self, plan: SchedulerOutput) -> Callable[[], ModelOutput]:
        """What brings a plan's answer."""
        return partial(self._run, plan)

    def _run(self, plan: SchedulerOutput) -> ModelOutput:
        try:
            return self._executor.run(plan)
        finally:
            self._phases.lap(FORWARD)


class BackgroundPipeline(Pipeline):
    """Computes plans on a thread of its own, one by one, as soon as they are put in.

    Behind a plan that failed none is computed until ``clear``. As long as one is computed,
    time is the executor's, whatever the engine does meanwhile: no second counts twice.
    """

    def __init__(self, executor: Executor, phases: Phases) -> None:
        from concurrent.futures import ThreadPoolExecutor

        super().__init__(executor, phases)
        self._thread = ThreadPoolExecutor(1, "batchwright-executor")
        self._has_failed = False
        self._num_begun = 0  # written by the engine's thread only
        self._num_ended = 0  # written by this one's only

    def clear(self) -> None:
        self.call(self._forgive)
        super().clear()

    def call(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        super().close()

    def start(self) -> None:
        self._phases.num_steps += 1
        if not self._is_busy:
            self._phases.skip()

    def lap(self, phase: str) -> None:
        if not self._is_busy:
            self._phases.lap(phase)

    @property
    def _is_busy(self) -> bool:
        """Whether a plan is being computed: while it is, ``phases`` belongs to the thread."""
        return self._num_ended < self._num_begun

    def _begin(self, plan: SchedulerOutput) -> Callable[[], ModelOutput]:
        self._num_begun += 1
        return self._thread.submit(self._run, plan).result

    def _run(self, plan: SchedulerOutput) -> ModelOutput:
        try:
            if self._has_failed:
                raise ExecutorError("not computed, since the plan before it failed")
            return super()._run(plan)
        except BaseException:
            self._has_failed = True
            raise
        finally:
            self._num_ended += 1

    def _forgive(self) -> None:
        self._has_failed = False
