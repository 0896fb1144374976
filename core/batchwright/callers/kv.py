"""Calls of the KV manager: the pool of blocks as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Callable

from batchwright.callers.fault import Fault, RunEndedError, name_of
from batchwright.context import Sizes
from batchwright.protocols import KVManager, Need, PrefixHit
from batchwright.protocols.kv import NO_HIT
from batchwright.request import Request


class BlockPool:
    """Asks the KV manager; nothing can replace its answers, so that a fault ends the run.

    Args:
        kv: The manager.
        sizes: The fixed sizes of the run.

    Attributes:
        kv: The manager.
        block_size: Tokens a block.
    """

    def __init__(self, kv: KVManager, sizes: Sizes) -> None:
        self.kv = kv
        self.block_size = sizes.block_size
        self._num_lookahead_tokens = sizes.num_lookahead_tokens
        self._max_model_len = sizes.max_model_len

    @property
    def num_free_blocks(self) -> int:
        return self.kv.num_free_blocks

    def num_blocks_for(self, num_tokens: int) -> int:
        """Return the number of blocks that hold so many tokens."""
        return -(-num_tokens // self.block_size)

    def fits(self, num_tokens: int) -> bool:
        """Tell whether a request with so many tokens in the cache could run alone."""
        return self.num_blocks_for(num_tokens) <= self.kv.num_usable_blocks

    def lookup(self, request: Request) -> PrefixHit:
        """Look up the prefix of a waiting request.

        Raises:
            PluginError: The manager answered nonsense.
        """
        hit = self.kv.lookup(request.view)
        if not (isinstance(hit, PrefixHit) and 0 <= hit.num_tokens < request.num_tokens):
            expected = f"a PrefixHit of less than {request.num_tokens} tokens"
            raise self._unusable(self.kv.lookup, hit, expected)
        return hit

    def need(self, request: Request, hit: PrefixHit, num_computed: int) -> Need:
        """Return the blocks that a waiting request needs.

        Args:
            request: The request.
            hit: The tokens that the prefix cache holds of it.
            num_computed: Tokens that are computed when this step is done.

        Raises:
            PluginError: The manager answered nonsense.
        """
        kv, known = self.kv, request.num_tokens
        num_slots = self._num_slots(num_computed)
        step = kv.num_needed(request.view, num_slots, hit)
        full = step if known <= num_slots else kv.num_needed(request.view, known, hit)
        if not (type(step) is type(full) is int):
            raise self._unusable(kv.num_needed, (step, full), "a number of blocks")
        return Need(step, full)

    def admit(self, request: Request, num_computed: int, hit: PrefixHit) -> list[int] | None:
        """Give a waiting request its blocks.

        Args:
            request: The request.
            num_computed: Tokens that are computed when this step is done.
            hit: The tokens that the prefix cache holds of it.

        Returns:
            Its whole table, or None if the pool has not enough.
        """
        num_slots = self._num_slots(num_computed)
        new = self.kv.allocate(request.view, num_slots, num_computed, hit)
        return self.table(request) if type(new) is list else self._no_blocks(new)

    def extend(self, request: Request, num_computed: int) -> list[int] | None:
        """Give a running request slots, with lookahead where the pool has room for it.

        Args:
            request: The request.
            num_computed: Tokens that are computed when this step is done.

        Returns:
            New blocks, or None if the pool has not enough.
        """
        ahead, final = self._num_lookahead_tokens, min(num_computed, request.num_tokens)
        num_slots = min(num_computed + ahead, self._max_model_len) if ahead else num_computed
        new = self.kv.allocate(request.view, num_slots, final, NO_HIT)
        if new is None and ahead and not self.fits(num_computed + ahead):
            new = self.kv.allocate(request.view, num_computed, final, NO_HIT)
        return new if type(new) is list else self._no_blocks(new)

    def table(self, request: Request) -> list[int]:
        """Return a copy of a request's block table."""
        return self.kv.block_ids(request.view)

    def _num_slots(self, num_computed: int) -> int:
        """Return the positions that need a slot: with lookahead, where the pool has room."""
        slots = min(num_computed + self._num_lookahead_tokens, self._max_model_len)
        return slots if self.fits(slots) else num_computed

    def _no_blocks(self, answer: object) -> list[int] | None:
        """Return None if that is the answer: without blocks there is no other."""
        if answer is None:
            return None
        raise self._unusable(self.kv.allocate, answer, "block ids, or None")

    def _unusable(
        self, method: Callable[..., object], answer: object, expected: str
    ) -> RunEndedError:
        name = name_of(self.kv, method)
        return Fault.returned(self.kv, name, answer, expected).ending_run()
