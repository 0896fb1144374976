"""Room for a newcomer: requests that could give way to it, before any of them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import define, evolve, field

from batchwright.protocols import PrefixHit
from batchwright.request import Request
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.state import State


@define(eq=False)
class MakingRoom:
    """The requests that give way if one newcomer is admitted.

    Nothing changes while they are chosen: gates and limits are asked as if the chosen ones
    waited already. First the request that gives its seat gives its blocks, too, then
    paused ones, the last first, then running ones that the victim plugin names.

    Args:
        state: The requests, by place.
        policy_preemption: Names running requests, and has requests give way.
        newcomer: The request that they give way to.
        seat: The running request that gives up its seat; None if a seat is free.

    Attributes:
        givers: Requests that give up their blocks, running or paused, in this order.
        freed: Blocks that the pool gets back at once.
        coming: Blocks that it gets back once a step in flight is done.
    """

    _state: State
    _policy_preemption: PolicyPreemption
    newcomer: Request
    _seat: Request | None
    _givers: list[Request] = field(init=False, factory=list)
    _asked: dict[str, Request] = field(init=False, factory=dict)
    _freed: set[int] = field(init=False, factory=set)
    _coming: set[int] = field(init=False, factory=set)
    _holds: Counter[int] = field(init=False, factory=Counter)

    def __attrs_post_init__(self) -> None:
        self._freed, self._coming = self._back(self._givers)

    @property
    def num_blocks(self) -> int:
        """Blocks that they give, and those that are coming back anyway."""
        return len(self._freed) + len(self._coming)

    def widen(self) -> bool:
        """Consider more requests, until there are more blocks; False if there are none."""
        before = self.num_blocks
        while (giver := self._next()) is not None:
            self._asked[giver.request_id] = giver
            self._givers.append(giver)
            self._freed, self._coming = self._back(self._givers)
            if self.num_blocks > before:
                return True
        return False

    def carry_out(self) -> None:
        """Let them give way, but for those that add nothing to what the others give."""
        for giver in self._givers[:-1]:
            others = [other for other in self._givers if other is not giver]
            if self._back(others) == (self._freed, self._coming):
                self._givers = others
        for giver in self._givers:
            self._policy_preemption.give_way(giver, pause=False)
        if self._seat is not None and self._seat not in self._givers:
            self._policy_preemption.give_way(self._seat, pause=True)

    @contextmanager
    def supposed(self) -> Iterator[None]:
        """The step as it would be if they had given way, for gates and limits."""
        state, step = self._state, self._state.step
        leaving = {r.request_id: r for r in self._leaving() if r.request_id in state.running}
        kept = step.unfinished
        step.unfinished = {name: r for name, r in kept.items() if name not in leaving}
        returned = {name: step.return_tokens(name) for name in leaving}
        state.view.suppose(leaving, self.num_blocks)
        try:
            yield
        finally:
            state.view.suppose({})
            step.unfinished = kept
            for name, num_tokens in returned.items():
                step.take_tokens(name, num_tokens)

    def supposed_hit(self, hit: PrefixHit) -> PrefixHit:
        """Return a hit as it would be then.

        Blocks that a leaving request is to fill in this plan would not be computed; those
        that come back to the pool would have to be taken from it again.
        """
        num_sound = self._num_sound(hit.block_ids)
        if num_sound < len(hit.block_ids):
            num_tokens = num_sound * self._state.blocks.block_size
            num_idle = min(hit.num_idle_blocks, num_sound)
            hit = PrefixHit(num_tokens, hit.block_ids[:num_sound], num_idle)
        back = sum(block in self._freed or block in self._coming for block in hit.block_ids)
        return evolve(hit, num_idle_blocks=hit.num_idle_blocks + back) if back else hit

    def is_there(self, hit: PrefixHit, num_blocks: int) -> bool:
        """Tell whether the blocks are there at once, not only when a step in flight is done."""
        later = sum(block in self._coming for block in hit.block_ids)
        return num_blocks - later <= self._state.kv.num_free_blocks + len(self._freed)

    def _leaving(self) -> list[Request]:
        return self._givers if self._seat is None else [*self._givers, self._seat]

    def _next(self) -> Request | None:
        if self._seat is not None and self._seat.request_id not in self._asked:
            return self._seat
        for request in reversed(self._state.paused.values()):
            if request is not self.newcomer and request.request_id not in self._asked:
                return request
        return self._policy_preemption.victim(self.newcomer, self._state.step, self._asked)

    def _back(self, givers: list[Request]) -> tuple[set[int], set[int]]:
        """Return blocks that go back to the pool: those that no other request holds, too.

        Returns:
            Those that it gets at once; those that it gets once a step in flight is done.
        """
        state, in_flight = self._state, self._state.in_flight
        if not (givers or in_flight.defers_frees):
            return set(), set()
        now: Counter[int] = Counter()
        later: Counter[int] = Counter()
        for request in givers:
            is_in_flight = in_flight.last_step_of(request) is not None
            (later if is_in_flight else now).update(state.blocks.table(request))
        for _, block_ids in in_flight.deferred_tables():
            later.update(block_ids)
        holds = self._holds = self._holds or self._count_holds()
        freed = {block for block, count in now.items() if count == holds[block]}
        whole = now + later if later else now
        return freed, {block for block, count in whole.items() if count == holds[block]} - freed

    def _count_holds(self) -> Counter[int]:
        """Count the requests and steps in flight that hold each block."""
        state = self._state
        holds: Counter[int] = Counter()
        for request in (*state.running.values(), *state.paused.values()):
            holds.update(state.blocks.table(request))
        for _, block_ids in state.in_flight.deferred_tables():
            holds.update(block_ids)
        return holds

    def _num_sound(self, block_ids: Sequence[int]) -> int:
        """Count the leading blocks of a hit that are computed whichever requests leave."""
        state = self._state
        if not block_ids or state.compat.keeps_victims_hashes:
            return len(block_ids)
        doubtful: set[int] = set()
        for request in self._leaving():
            if request.request_id in state.step.tokens:
                first = request.num_computed_tokens // state.blocks.block_size
                doubtful.update(state.blocks.table(request)[first:])
        sound = (i for i, block in enumerate(block_ids) if block in doubtful)
        return next(sound, len(block_ids))
