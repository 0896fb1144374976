"""KV managers: the blocks that hold the keys and values of requests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal, NamedTuple

from attrs import frozen

from batchwright.protocols.component import Component, Lifecycle
from batchwright.request_view import RequestView


@frozen
class PrefixHit:
    """A request's tokens in the prefix cache.

    Args:
        num_tokens: Tokens that need not be computed, at most num_tokens - 1.
        block_ids: The blocks that hold them, in order.
        num_idle_blocks: Those of them that no request uses now: adopting them takes
            them from the free pool.
    """

    num_tokens: int = 0
    block_ids: tuple[int, ...] = ()
    num_idle_blocks: int = 0


NO_HIT = PrefixHit()


class Need(NamedTuple):
    """Blocks that an admission takes from the free pool, idle hits included.

    Args:
        num_step_blocks: For the scheduled tokens of this step.
        num_full_blocks: For all known tokens, prompt and outputs so far.
    """

    num_step_blocks: int
    num_full_blocks: int


DetachCause = Literal["finished", "preempted", "aborted"]
"""The reason why a request loses its blocks."""


class KVManager(Component, Lifecycle):
    """Blocks: look up, allocate, free. One for the scheduler; chosen by ``kv.manager``.

    ``num_blocks`` and ``block_size`` come from ``ctx.sizes``. Every method leaves
    the manager as it was when it answers None or raises. The manager never writes to
    a request.

    Faults: an exception is the manager's own fault and ends the run with PluginError,
    since no other part knows which request has which blocks.
    """

    @property
    @abstractmethod
    def num_usable_blocks(self) -> int:
        """Blocks that requests can hold in all: without reserved ones."""

    @property
    @abstractmethod
    def num_free_blocks(self) -> int:
        """Blocks that could be allocated now, idle cached ones included."""

    @property
    def usage(self) -> float:
        """Share of usable blocks that are in use (0..1)."""
        return 1 - self.num_free_blocks / max(1, self.num_usable_blocks)

    @abstractmethod
    def lookup(self, request: RequestView) -> PrefixHit:
        """Look up a waiting request's prefix. Free of side effects.

        Cost class: candidate.
        """

    def hit_length(self, request: RequestView) -> int:
        """Return the tokens that ``lookup`` would find now, for policies that ask often.

        Override it if that is cheaper to keep current than to look up.

        Cost class: candidate.
        """
        return self.lookup(request).num_tokens

    @abstractmethod
    def num_needed(self, request: RequestView, num_tokens: int, hit: PrefixHit = NO_HIT) -> int:
        """Blocks that ``allocate`` would take from the free pool for that many positions.

        Cost class: candidate.
        """

    @abstractmethod
    def allocate(
        self, request: RequestView, num_tokens: int, num_final_tokens: int, hit: PrefixHit = NO_HIT
    ) -> list[int] | None:
        """Give a request slots for its first ``num_tokens`` positions.

        Args:
            request: The request.
            num_tokens: Positions that must have a slot: computed, scheduled, lookahead.
            num_final_tokens: Positions that will be computed when this step is done
                and whose tokens cannot change (no drafts): full blocks among them are
                published to the prefix cache, for requests later in the same step too.
            hit: The result of ``lookup``, for a request that holds no blocks yet.

        Returns:
            Ids of the blocks taken anew (adopted hits not among them), or None if the
            free pool is too small: then nothing has changed.

        Cost class: candidate; for a decode, event (twice a block).
        """

    def allocate_decodes(
        self, growing: Sequence[RequestView], filling: Sequence[RequestView]
    ) -> list[list[int]]:
        """Give slots to many requests that compute one more token each in this step.

        It is equivalent to a call of ``allocate`` for each of them, in this order, which is the
        default. Override it if one call for all is cheaper. Most decodes need no block and
        complete none; those are not passed.

        Args:
            growing: Requests whose next token needs a new block; there is a free one for each.
            filling: Requests whose next token completes a block, to be published.

        Returns:
            For each of ``growing``, the blocks taken.

        Cost class: event (twice a block).
        """
        new = {}
        for request in dict.fromkeys((*growing, *filling)):
            num_tokens = request.num_computed_tokens + 1
            new[request] = self.allocate(request, num_tokens, num_tokens) or []
        return [new[request] for request in growing]

    def fast_forward_decodes(
        self, growing: Sequence[RequestView], filling: Sequence[RequestView]
    ) -> None:
        """Do the work of ``allocate_decodes`` of several steps at once.

        A simulation calls it if nothing but decodes happens for many steps. Without it the
        simulation computes each step by itself, which takes longer. The tokens of all these
        steps are known when it is called. The result is that of a call of ``allocate_decodes``
        for each step, block ids included.

        Args:
            growing: Requests that need a new block, those of the first step first; a request
                is there once for each block.
            filling: Requests that complete a block, likewise.

        Cost class: once for many steps.
        """
        raise NotImplementedError  # called only where it is overridden

    @abstractmethod
    def block_ids(self, request: RequestView) -> list[int]:
        """A copy of a request's block table; empty if it holds none."""

    def num_own_blocks(self, request: RequestView) -> int:
        """Return the number of blocks that only this request holds: its end frees them.

        Override it if blocks are shared. O(blocks of the request).

        Cost class: shortage.
        """
        return len(self.block_ids(request))

    @abstractmethod
    def detach(self, request: RequestView, cause: DetachCause) -> list[int]:
        """End a request's hold on its table, but keep the blocks out of the pool.

        Args:
            request: The request.
            cause: ``finished``, ``preempted`` or ``aborted``: a manager may keep blocks longer
                that are likely to be found again.

        Returns:
            The blocks, to be given to ``free`` once no step in flight uses them.
        """

    @abstractmethod
    def free(self, block_ids: Sequence[int]) -> None:
        """Return detached blocks to the pool; cached ones stay findable."""

    @abstractmethod
    def unpublish(self, request: RequestView, num_tokens: int) -> None:
        """Withdraw the published blocks of a request beyond its first tokens.

        Called when the request leaves the plan that was to compute them.
        """

    def unpublish_blocks(self, block_ids: Sequence[int]) -> None:
        """Withdraw published blocks: no lookup finds them any more.

        Called when the step that was to compute them failed. They may be held by several
        requests, detached, or free; each request that still holds one loses its table right
        afterwards. Override it if blocks are published.
        """

    def published_blocks(self) -> Iterable[int]:
        """Blocks that lookups can find, for the ``invariants`` observer and tests.

        Override it if blocks are published. O(blocks).
        """
        return ()

    @abstractmethod
    def reset_prefix_cache(self) -> bool:
        """Forget every cached block.

        Returns:
            True if it was done. False, and nothing changed, while blocks are in use.
        """

    def forget(self, request: RequestView) -> None:
        """Drop the records of an ended request (e.g. its hashes)."""

    @abstractmethod
    def audit(self, tables: dict[str, list[int]]) -> Iterator[str]:
        """Check the manager's own records, for the ``invariants`` observer and tests.

        Args:
            tables: Detached blocks by a name of your choice, to be counted as held.

        Yields:
            One sentence for every inconsistency: a reference count that differs from
            the tables, a block both free and held, a duplicate in the free queue.
        """


class Hasher(Component):
    """The hash that identifies a block's content. Subcomponent of a KV manager.

    It must be the same in every process and at every time. KV managers refuse one
    with fewer than 16 bytes, since equal hashes mean equal KV.
    """

    digest_size: ClassVar[int]
    """Bytes of a digest."""

    @abstractmethod
    def digest(self, data: bytes) -> bytes:
        """Hash bytes (the parent's digest, the block's tokens, its extra keys)."""


class Eviction(Component):
    """The free blocks, and the order of their reuse. Subcomponent of a KV manager.

    All operations O(1) or O(log n).
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of free blocks."""

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """Free blocks in the order in which they would be taken; for audits."""

    @abstractmethod
    def add_empty(self, block_ids: Sequence[int]) -> None:
        """Add free blocks without content to keep; the first is taken first."""

    @abstractmethod
    def add_cached(self, block_ids: Sequence[int]) -> None:
        """Add free blocks that the prefix cache can find; the first is taken first."""

    @abstractmethod
    def take(self) -> int:
        """Remove and return the block to use next; there is one."""

    def take_many(self, count: int) -> list[int]:
        """Remove and return the blocks to use next; there are so many.

        Override it if that is cheaper than to take them one by one.
        """
        return [self.take() for _ in range(count)]

    @abstractmethod
    def remove(self, block_id: int) -> None:
        """Remove a block that a request adopts."""
