"""Policy preemption: a policy lets running requests pause, or give way to others."""

from __future__ import annotations

from collections.abc import Container

from attrs import define, field

from batchwright.request import Request
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


@define(eq=False, slots=False)
class PolicyPreemption:
    """Carries out what a policy says in ``running_to_preempt`` and ``preempts``.

    Guards: no request yields while none waits; one that has yielded does not return in the
    same step; after ``max_policy_preemptions`` a request is immune; one request preempts
    another only if not also the other way round. A request that is preempted so is chosen
    first, and gives way only once it is certain that the newcomer is admitted.

    Args:
        state: The requests, by place.
        preemption: Preempts requests.
        ending: Ends requests.
    """

    _state: State
    _preemption: Preemption
    _ending: Ending
    _seat_may_be_had: bool = field(init=False, default=True)
    _num_changes: int = field(init=False, default=0)
    _no_room: tuple[str, int, int, int] | None = field(init=False, default=None)

    def run(self) -> None:
        """Ask the policy who yields, since something has changed; only if requests wait."""
        state = self._state
        if not state.waiting.num_in_queue:
            return
        state.has_changed = False
        self._num_changes += 1
        self._seat_may_be_had = state.policy.preempts
        if state.policy.yields:
            for one in state.policy.to_yield(state.view):
                if one.request in state.view.running:  # it may be named twice
                    request = state.running[one.request.request_id]
                    self.give_way(request, pause=one.keep_blocks)
        self._ending.end_requested()

    def seat_victim(self, step: StepInProgress) -> Request | None:
        """Return the running request that would give its seat to the head of the queue.

        If there is none, nothing is asked again until something changes.
        """
        if not self._seat_may_be_had:
            return None
        head = self._state.waiting.head()
        victim = self.victim(head, step) if head is not None else None
        self._seat_may_be_had = victim is not None
        return victim

    def victim(
        self, head: Request, step: StepInProgress, but: Container[str] = ()
    ) -> Request | None:
        """Return the running request that the victim plugin names, if it may be preempted.

        Args:
            head: The newcomer that would take its place.
            step: The step.
            but: Ids of requests that were named before.
        """
        policy = self._state.policy
        if not policy.preempts or head.request_id in step.yielded:
            return None
        movable = {name: r for name, r in self._movable(step).items() if name not in but}
        if not movable:
            return None
        victim = self._preemption.victim_for(head, movable)
        return victim if policy.may_displace(head.view, victim.view) else None

    def may_give_room(self, newcomer: Request) -> bool:
        """Tell whether others may give blocks, and something changed since none were enough."""
        may_give = self._state.paused or self._state.policy.preempts
        return bool(may_give) and self._no_room != self._standing(newcomer)

    def note_no_room(self, newcomer: Request) -> None:
        """Note that all that could give way have not enough."""
        self._no_room = self._standing(newcomer)

    def give_way(self, request: Request, *, pause: bool) -> None:
        """Make a running request yield, unless it has become immune, or a paused one.

        Args:
            request: The request.
            pause: Whether it keeps its blocks.
        """
        state = self._state
        if request.request_id in state.paused:
            self._preemption.reclaim(request)
        elif request.num_policy_preemptions < state.settings.max_policy_preemptions:
            request.num_policy_preemptions += 1
            state.step.yielded[request.request_id] = request
            if pause:
                self._preemption.pause(request)
            else:
                self._preemption.preempt(request, "policy")

    def _standing(self, newcomer: Request) -> tuple[str, int, int, int]:
        state = self._state
        name, free = newcomer.request_id, state.kv.num_free_blocks
        return name, self._num_changes, free, len(state.running)

    def _movable(self, step: StepInProgress) -> dict[str, Request]:
        """Return running requests that may be taken out of the plan.

        Not among them: one that is immune, one that this very plan admits, and one whose
        tokens of this plan fill blocks that another admission of this plan has adopted.
        """
        adopted = {block for name in step.admitted for block in step.tables[name]}
        return {
            request_id: request
            for request_id, request in self._state.running.items()
            if request.num_policy_preemptions < self._state.settings.max_policy_preemptions
            and request_id not in step.admitted
            and not (adopted and self._fills_any(request, adopted, step))
        }

    def _fills_any(self, request: Request, block_ids: set[int], step: StepInProgress) -> bool:
        """Tell whether the tokens that this plan computes of a request fill one of some blocks."""
        blocks, start = self._state.blocks, request.num_computed_tokens
        stop = start + step.tokens.get(request.request_id, 0)
        first, last = start // blocks.block_size, stop // blocks.block_size
        return first < last and not block_ids.isdisjoint(blocks.table(request)[first:last])
