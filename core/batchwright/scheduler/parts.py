"""The parts of a scheduler, each made with what it needs."""

from __future__ import annotations

from batchwright.callers.controls import Controls
from batchwright.callers.events import Timers
from batchwright.callers.features import Features
from batchwright.callers.gates import Gates
from batchwright.callers.guard import Guard
from batchwright.callers.kv import BlockPool
from batchwright.callers.limits import Limits
from batchwright.callers.resources import Resources
from batchwright.callers.victims import Victims
from batchwright.scheduler.admission import Admission
from batchwright.scheduler.admission_attempt import AdmissionAttempt
from batchwright.scheduler.begin_step import BeginStep
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.failures import Failures
from batchwright.scheduler.making_room import MakingRoom
from batchwright.scheduler.offers import Offers
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.progress_guard import ProgressGuard
from batchwright.scheduler.results import Results
from batchwright.scheduler.running_scan import RunningScan
from batchwright.scheduler.state import State
from batchwright.scheduler.waiting_scan import WaitingScan


class Parts:
    """Callers of components, and the parts of the step.

    Args:
        state: The requests, by place.
        guard: Calls components.
    """

    def __init__(self, state: State, guard: Guard) -> None:
        chosen, policy = state.components, state.policy
        gates, limits = Gates(chosen.gates, guard), Limits(chosen.limits, guard)
        resources = Resources(chosen.resources, guard)
        self.features = Features(chosen.features, guard)
        self.blocks = blocks = BlockPool(chosen.kv, state.sizes)
        self.ending = ending = Ending(state, blocks, resources)
        self.admission = Admission(state, blocks, gates, self.features, resources, ending)
        controls = Controls(chosen.controls, guard)
        self.begin_step = BeginStep(state, controls, Timers(guard), ending)
        victims = Victims(chosen.victim, chosen.preemption, guard)
        self.preemption = preemption = Preemption(state, blocks, victims, ending)
        by_policy = self.policy_preemption = PolicyPreemption(
            state, policy, blocks, preemption, ending
        )
        room = MakingRoom(state, blocks, preemption, by_policy)
        offers = Offers(state, gates, limits, blocks)
        attempt = AdmissionAttempt(state, gates, offers, resources, blocks, ending, room)
        self.running_scan = RunningScan(state, policy, limits, blocks, preemption, ending)
        self.waiting_scan = WaitingScan(state, gates, attempt, ending, by_policy)
        failures = Failures(state, blocks, ending, preemption)
        self.results = Results(state, ending, preemption, failures)
        self.progress_guard = ProgressGuard(state)
