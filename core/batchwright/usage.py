"""Service that each account received: counted by the core, read by policies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from batchwright.counters import GrowingSum, SharedCount


class Usage:
    """Service that one account received, up to the last plan.

    Attributes:
        prefill_tokens: Tokens scheduled for requests that lacked more than one, recomputed
            ones included.
        recomputed_tokens: Those of them that had been computed before.
        cached_tokens: Tokens that needed no computing thanks to the prefix cache.
    """

    __slots__ = ("_blocks", "_decodes", "cached_tokens", "prefill_tokens", "recomputed_tokens")

    def __init__(self, decode_steps: SharedCount, steps: SharedCount) -> None:
        self.prefill_tokens = 0
        self.recomputed_tokens = 0
        self.cached_tokens = 0
        self._decodes = GrowingSum(decode_steps)
        self._blocks = GrowingSum(steps)

    @property
    def decode_tokens(self) -> int:
        """Tokens scheduled for requests that lacked one (output tokens, but for the first)."""
        return self._decodes.total

    @property
    def block_steps(self) -> int:
        """KV blocks held, summed over steps (blocks x steps)."""
        return self._blocks.total

    @property
    def num_blocks(self) -> int:
        """KV blocks held now."""
        return self._blocks.rate

    # The scheduler's side.
    def add_decode_tokens(self, num_tokens: int) -> None:
        """Count decode tokens that were scheduled one by one."""
        self._decodes.add(num_tokens)

    def change_num_batched(self, by: int) -> None:
        """Change the number of requests that decode one token a step in the decode batch."""
        self._decodes.change_rate(by)

    def change_num_blocks(self, by: int) -> None:
        """Change the number of blocks held."""
        self._blocks.change_rate(by)


class UsageByAccount:
    """Usage by the key that ``SchedulingPolicy.account`` gave.

    An unknown account reads as one that was never served.

    Args:
        decode_steps: Advances whenever each request of the decode batch computes a token.
        steps: Advances with each step.
    """

    def __init__(self, decode_steps: SharedCount, steps: SharedCount) -> None:
        self._decode_steps = decode_steps
        self._steps = steps
        self._by_key: dict[Hashable, Usage] = {}
        self._none: Final = Usage(decode_steps, steps)

    def __getitem__(self, account: Hashable) -> Usage:
        return self._by_key.get(account, self._none)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def open(self, account: Hashable) -> Usage:
        """The usage of an account, opened if it is new. For the scheduler."""
        if account not in self._by_key:
            self._by_key[account] = Usage(self._decode_steps, self._steps)
        return self._by_key[account]
