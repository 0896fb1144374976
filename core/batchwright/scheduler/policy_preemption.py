"""Policy preemption: a policy lets running requests pause, or give way to others."""

from __future__ import annotations

from collections.abc import Container

from batchwright.callers.kv import BlockPool
from batchwright.callers.policy import Policy
from batchwright.request import Request
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


class PolicyPreemption:
    """Carries out what a policy says in ``running_to_preempt`` and ``preempts``.

    Guards: no request yields while none waits; one that has yielded does not return in the
    same step; after ``max_policy_preemptions`` a request is immune; one request displaces
    another only if not also the other way round. A request that is displaced is chosen
    first, and gives way only once it is certain that the newcomer is admitted.

    Args:
        state: The requests, by place.
        policy: The policy.
        blocks: The pool.
        preemption: Preempts requests.
    """

    def __init__(
        self, state: State, policy: Policy, blocks: BlockPool, preemption: Preemption
    ) -> None:
        self._state = state
        self._policy = policy
        self._blocks = blocks
        self._preemption = preemption
        self._most = state.settings.max_policy_preemptions
        self.preempts = policy.preempts
        self._seat_may_be_had = self.preempts
        self.num_changes = 0

    def run(self) -> None:
        """Ask the policy who yields; only if something changed since it was asked."""
        state = self._state
        if not (state.has_changed and state.waiting.num_in_queue):
            return
        state.has_changed = False
        self.num_changes += 1
        self._seat_may_be_had = self.preempts
        if not self._policy.yields:
            return
        for one in self._policy.to_yield(state.view):
            if one.request in state.view.running:  # it may be named twice
                request = state.running[one.request.request_id]
                self.give_way(request, pause=isinstance(one, Pause))

    def seat_victim(self, step: StepInProgress) -> Request | None:
        """Return the running request that would give its seat to the head of the queue.

        If there is none, nothing is asked again until something changes.
        """
        head = self._state.waiting.head() if self._seat_may_be_had else None
        victim = self.victim(head, step) if head is not None else None
        self._seat_may_be_had = victim is not None
        return victim

    def victim(
        self, head: Request, step: StepInProgress, but: Container[str] = ()
    ) -> Request | None:
        """Return the running request that the victim plugin names, if it may be displaced.

        Args:
            head: The newcomer that would take its place.
            step: The step.
            but: Ids of requests that were named before.
        """
        if not self.preempts or head.request_id in step.yielded:
            return None
        movable = {name: r for name, r in self._movable(step).items() if name not in but}
        if not movable:
            return None
        victim = self._preemption.victim_for(head, movable)
        return victim if self._policy.may_displace(head.view, victim.view) else None

    def give_way(self, request: Request, *, pause: bool) -> None:
        """Make a running request yield, unless it has become immune.

        Args:
            request: The request.
            pause: Whether it keeps its blocks.
        """
        if request.num_policy_preemptions >= self._most:
            return
        request.num_policy_preemptions += 1
        self._state.step.yielded[request.request_id] = request
        if pause:
            self._preemption.pause(request)
        else:
            self._preemption.preempt(request, "policy")

    def _movable(self, step: StepInProgress) -> dict[str, Request]:
        """Return running requests that may be taken out of the plan.

        Not among them: one that is immune, one that this very plan admits, and one whose
        tokens of this plan fill blocks that another admission of this plan has adopted.
        """
        adopted = {block for name in step.admitted for block in step.tables[name]}
        return {
            request_id: request
            for request_id, request in self._state.running.items()
            if request.num_policy_preemptions < self._most
            and request_id not in step.admitted
            and not (adopted and self._fills_any(request, adopted, step))
        }

    def _fills_any(self, request: Request, block_ids: set[int], step: StepInProgress) -> bool:
        """Tell whether the tokens that this plan computes of a request fill one of some blocks."""
        size, start = self._blocks.block_size, request.num_computed_tokens
        stop = start + step.tokens.get(request.request_id, 0)
        filled = range(start // size, stop // size)
        if not filled:
            return False
        table = self._blocks.table(request)
        return not block_ids.isdisjoint(table[filled.start : filled.stop])
