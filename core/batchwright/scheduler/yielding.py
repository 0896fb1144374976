"""Voluntary yielding: a policy lets running requests pause, or give way to others."""

from __future__ import annotations

from collections.abc import Container

from batchwright.protocols.component import overrides
from batchwright.request import Request
from batchwright.scheduler.departures import Departures
from batchwright.scheduler.state import State
from batchwright.verdicts import Preempt


class Yielding:
    """Carries out what a policy says in ``running_to_preempt`` and ``preempts``.

    Guards: no request yields while none waits; one that has yielded does not return in the
    same step; after ``max_policy_preemptions`` a request is immune; one request displaces
    another only if not also the other way round. A request that is displaced is chosen
    first, and gives way only once it is certain that the newcomer is admitted.
    """

    def __init__(self, state: State, departures: Departures) -> None:
        self._state = state
        self._departures = departures
        policy = state.components.policy
        self._yields = overrides(policy, "running_to_preempt")
        self.preempts = overrides(policy, "preempts")
        self._seat_may_be_had = self.preempts
        self.num_changes = 0

    def run(self) -> None:
        """Ask the policy who yields; only if something changed since it was asked."""
        state = self._state
        if not (state.has_changed and state.room.num_in_queue):
            return
        state.has_changed = False
        self.num_changes += 1
        self._seat_may_be_had = self.preempts
        if self._yields:
            self._ask_who_yields()

    def _ask_who_yields(self) -> None:
        state = self._state
        policy, running = state.components.policy, state.view.running
        named = state.faults.ask(
            policy,
            "running_to_preempt",
            (state.view,),
            check=lambda named: all(
                isinstance(one, Preempt) and one.request in running for one in named
            ),
            expected="Preempt of running requests",
            call=lambda view: tuple(policy.running_to_preempt(view)),  # it may be a generator
        )
        for one in named or ():
            if one.request in running:  # it may be named twice
                request = state.running[one.request.request_id]
                self.give_way(request, pause=one.keep_blocks)

    def seat_victim(self) -> Request | None:
        """The running request that would give its seat to the head of the queue.

        If there is none, nothing is asked again until something changes.
        """
        head = self._state.room.head() if self._seat_may_be_had else None
        victim = self.victim(head) if head is not None else None
        self._seat_may_be_had = victim is not None
        return victim

    def victim(self, head: Request, but: Container[str] = ()) -> Request | None:
        """The running request that the victim plugin names, if it may be displaced.

        Args:
            head: The newcomer that would take its place.
            but: Ids of requests that were named before.
        """
        if not self.preempts or head.request_id in self._state.draft.yielded:
            return None
        movable = self._movable()
        for request_id in [name for name in movable if name in but]:
            del movable[request_id]
        if not movable:
            return None
        victim = self._departures.victim_for(head, movable)
        return victim if self._may(head, victim) else None

    def _movable(self) -> dict[str, Request]:
        """Running requests that may be taken out of the plan.

        Not among them: one that is immune, one that this very plan admits, and one whose
        tokens of this plan fill blocks that another admission of this plan has adopted.
        """
        state = self._state
        most, admitted = state.settings.max_policy_preemptions, state.draft.admitted
        adopted = {block for name in admitted for block in state.draft.tables[name]}
        return {
            request_id: request
            for request_id, request in state.running.items()
            if request.num_policy_preemptions < most
            and request_id not in admitted
            and not (adopted and self._fills_any(request, adopted))
        }

    def _fills_any(self, request: Request, block_ids: set[int]) -> bool:
        """Tell whether the tokens that this plan grants a request fill one of some blocks."""
        state, size = self._state, self._state.sizes.block_size
        start = request.num_computed_tokens
        filled = range(
            start // size, (start + state.draft.tokens.get(request.request_id, 0)) // size
        )
        if not filled:
            return False
        table = state.kv.block_ids(request.view)
        return not block_ids.isdisjoint(table[filled.start : filled.stop])

    def _may(self, head: Request, victim: Request) -> bool:
        """Whether one request may displace another: strictly better only."""
        state = self._state
        one_way, other_way = (
            state.faults.ask(
                state.components.policy,
                "preempts",
                (waiting.view, running.view),
                check=lambda answer: isinstance(answer, bool),
                expected="True or False",
            )
            for waiting, running in ((head, victim), (victim, head))
        )
        return one_way is True and other_way is False

    def give_way(self, request: Request, *, pause: bool) -> None:
        """Make a running request yield, unless it has become immune.

        Args:
            request: The request.
            pause: Whether it keeps its blocks.
        """
        state = self._state
        if request.num_policy_preemptions >= state.settings.max_policy_preemptions:
            return
        request.num_policy_preemptions += 1
        state.draft.yielded[request.request_id] = request
        if pause:
            self._departures.pause(request)
        else:
            self._departures.preempt(request, "policy")
