"""The parts of a scheduler, each made with what it needs."""

from __future__ import annotations

from batchwright.scheduler.admission import Admission
from batchwright.scheduler.admission_attempt import AdmissionAttempt
from batchwright.scheduler.begin_step import BeginStep
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.failures import Failures
from batchwright.scheduler.offers import Offers
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.results import Results
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.state import State
from batchwright.scheduler.waiting_scan import WaitingScan


class Parts:
    """The parts of the step.

    Args:
        state: The requests, by place.
    """

    def __init__(self, state: State) -> None:
        self.ending = ending = Ending(state)
        self.admission = Admission(state, ending)
        self.begin_step = BeginStep(state, ending)
        self.preemption = preemption = Preemption(state, ending)
        self.policy_preemption = by_policy = PolicyPreemption(state, preemption, ending)
        self.running_scan = RunningScan(state, preemption, ending)
        attempt = AdmissionAttempt(state, Offers(state), ending, by_policy)
        self.waiting_scan = WaitingScan(state, attempt, ending, by_policy)
        failures = Failures(state, ending, preemption)
        self.results = Results(state, ending, preemption, failures)
        self.progress_guard = ProgressGuard(state)
