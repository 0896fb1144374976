"""Room for a newcomer: requests that could give way to it, before any of them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, evolve, field

from batchwright.callers.kv import BlockPool
from batchwright.protocols import PrefixHit
from batchwright.request import Request
from batchwright.scheduler.policy_preemption import PolicyPreemption
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.services import supposing
from batchwright.scheduler.state import State
from batchwright.scheduler.step_in_progress import StepInProgress


@define(eq=False)
class Giving:
    """Requests that give way if a newcomer is admitted.

    Args:
        seat: The running request that gives up its seat; None if a seat is free.
        blocks: Requests that give up their blocks, running or paused, in this order.

    Attributes:
        asked: All that were considered, by id.
        freed: Blocks that the pool gets back at once.
        coming: Blocks that it gets back once a step in flight is done.
        holds: Holders of each block, counted when it is first needed.
    """

    seat: Request | None = None
    blocks: list[Request] = field(factory=list)
    asked: dict[str, Request] = field(factory=dict)
    freed: set[int] = field(factory=set)
    coming: set[int] = field(factory=set)
    holds: Counter[int] = field(factory=Counter)

    @property
    def num_blocks(self) -> int:
        return len(self.freed) + len(self.coming)


@define(eq=False, slots=False)
class MakingRoom:
    """Finds requests that have to give way to a newcomer; takes them out when that is certain.

    Nothing changes while it chooses: gates and limits are asked as if the chosen ones waited
    already. First the request that gives its seat gives its blocks, too, then
    paused ones, the last first, then running ones that the victim plugin names.

    Args:
        state: The requests, by place.
        blocks: The pool.
        preemption: Takes the blocks of paused requests.
        policy_preemption: Names running requests, and preempts them.
    """

    _state: State
    _blocks: BlockPool
    _preemption: Preemption
    _policy_preemption: PolicyPreemption
    _failed: tuple[str, int, int, int] | None = field(init=False, default=None)

    def can_help(self, newcomer: Request) -> bool:
        """Tell whether others may give blocks, and something changed since none were enough."""
        may_give = self._state.paused or self._policy_preemption.preempts
        return bool(may_give) and self._failed != self._standing(newcomer)

    def give_up(self, newcomer: Request) -> None:
        """Note that all that could give way have not enough."""
        self._failed = self._standing(newcomer)

    def begin(self, seat: Request | None) -> Giving:
        """Begin a search, with the request that gives its seat and blocks that are coming back."""
        giving = Giving(seat)
        self._count(giving)
        return giving

    def widen(self, giving: Giving, newcomer: Request, step: StepInProgress) -> bool:
        """Consider more requests, until there are more blocks; False if there are none."""
        before = giving.num_blocks
        while (giver := self._next(giving, newcomer, step)) is not None:
            giving.asked[giver.request_id] = giver
            giving.blocks.append(giver)
            self._count(giving)
            if giving.num_blocks > before:
                return True
        return False

    def carry_out(self, giving: Giving) -> None:
        """Let them give way."""
        self._prune(giving)
        for request in giving.blocks:
            if request.request_id in self._state.paused:
                self._preemption.reclaim(request)
            else:
                self._policy_preemption.give_way(request, pause=False)
        if giving.seat is not None and giving.seat not in giving.blocks:
            self._policy_preemption.give_way(giving.seat, pause=True)

    @contextmanager
    def supposed(self, giving: Giving, step: StepInProgress) -> Iterator[None]:
        """The step as it would be if they had given way, for gates and limits."""
        kept = step.unfinished
        leaving = {r.request_id: r for r in giving.blocks if r.request_id in self._state.running}
        if giving.seat is not None:
            leaving[giving.seat.request_id] = giving.seat
        step.unfinished = {name: r for name, r in kept.items() if name not in leaving}
        returned = [step.return_tokens(name) for name in leaving]
        try:
            with supposing(self._state.view, leaving, giving.num_blocks):
                yield
        finally:
            step.unfinished = kept
            for name, num_tokens in zip(leaving, returned, strict=True):
                step.take_tokens(name, num_tokens)

    def supposed_hit(self, giving: Giving, hit: PrefixHit, step: StepInProgress) -> PrefixHit:
        """Return a hit as it would be then.

        Blocks that a leaving request is to fill in this plan would not be computed; those
        that come back to the pool would have to be taken from it again.
        """
        num_sound = self._num_sound(giving, hit, step)
        if num_sound < len(hit.block_ids):
            num_tokens = num_sound * self._blocks.block_size
            num_idle = min(hit.num_idle_blocks, num_sound)
            hit = PrefixHit(num_tokens, hit.block_ids[:num_sound], num_idle)
        if not giving.num_blocks or not hit.block_ids:
            return hit
        back = sum(block in giving.freed or block in giving.coming for block in hit.block_ids)
        return evolve(hit, num_idle_blocks=hit.num_idle_blocks + back)

    def is_there(self, giving: Giving, hit: PrefixHit, num_blocks: int) -> bool:
        """Tell whether the blocks are there at once, not only when a step in flight is done."""
        later = sum(block in giving.coming for block in hit.block_ids)
        return num_blocks - later <= self._blocks.num_free_blocks + len(giving.freed)

    def _standing(self, newcomer: Request) -> tuple[str, int, int, int]:
        state = self._state
        num_changes = self._policy_preemption.num_changes
        return newcomer.request_id, num_changes, self._blocks.num_free_blocks, len(state.running)

    def _next(self, giving: Giving, newcomer: Request, step: StepInProgress) -> Request | None:
        seat, asked = giving.seat, giving.asked
        if seat is not None and seat.request_id not in asked:
            return seat
        for request in reversed(self._state.paused.values()):
            if request is not newcomer and request.request_id not in asked:
                return request
        return self._policy_preemption.victim(newcomer, step, but=asked)

    def _count(self, giving: Giving) -> None:
        """Count blocks that go back to the pool: those that no other request holds, too."""
        in_flight = self._state.in_flight
        if not (giving.blocks or in_flight.defers_frees):
            return
        now: Counter[int] = Counter()
        later: Counter[int] = Counter()
        for request in giving.blocks:
            is_in_flight = in_flight.last_step_of(request) is not None
            (later if is_in_flight else now).update(self._blocks.table(request))
        for _, block_ids in in_flight.deferred_tables():
            later.update(block_ids)
        holds = giving.holds = giving.holds or self._holds()
        giving.freed = {block for block, count in now.items() if count == holds[block]}
        whole = now + later if later else now
        back = {block for block, count in whole.items() if count == holds[block]}
        giving.coming = back - giving.freed

    def _holds(self) -> Counter[int]:
        """Count the requests and steps in flight that hold each block."""
        state = self._state
        holds: Counter[int] = Counter()
        for request in (*state.running.values(), *state.paused.values()):
            holds.update(self._blocks.table(request))
        for _, block_ids in state.in_flight.deferred_tables():
            holds.update(block_ids)
        return holds

    def _prune(self, giving: Giving) -> None:
        """Leave out those that add nothing to what the others give."""
        for request in giving.blocks[:-1]:
            others = [other for other in giving.blocks if other is not request]
            fewer = Giving(blocks=others, holds=giving.holds)
            self._count(fewer)
            if (fewer.freed, fewer.coming) == (giving.freed, giving.coming):
                giving.blocks = others

    def _num_sound(self, giving: Giving, hit: PrefixHit, step: StepInProgress) -> int:
        """Count the leading blocks of a hit that are computed whichever requests leave."""
        if not hit.block_ids or self._state.compat.keeps_victims_hashes:
            return len(hit.block_ids)
        doubtful: set[int] = set()
        for request in (*giving.blocks, *([giving.seat] if giving.seat is not None else ())):
            if request.request_id in step.tokens:
                first = request.num_computed_tokens // self._blocks.block_size
                doubtful.update(self._blocks.table(request)[first:])
        sound = (i for i, block in enumerate(hit.block_ids) if block in doubtful)
        return next(sound, len(hit.block_ids))
