"""What each account was served: kept by the core, read by policies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from batchwright.calendar import Epoch
from batchwright.read_only import Read


class _Rate:
    """A sum that grows by ``rate`` whenever an epoch advances, at no cost then."""

    __slots__ = ("_base", "_epoch", "rate")

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._base = 0
        self.rate = 0

    @property
    def total(self) -> int:
        return self._base + self.rate * self._epoch.value

    def add(self, amount: int) -> None:
        self._base += amount

    def change(self, by: int) -> None:
        self._base -= by * self._epoch.value
        self.rate += by


class Account:
    """Service that one account received, up to the last plan.

    Attributes:
        prefill_tokens: Tokens granted to debts over one, recomputed ones included.
        recomputed_tokens: Those of them that had been computed before.
        cached_tokens: Tokens that needed no computing thanks to the prefix cache.
    """

    __slots__ = ("_blocks", "_decodes", "cached_tokens", "prefill_tokens", "recomputed_tokens")

    decode_tokens: Read[int] = Read("_decodes.total")
    """Tokens granted to debts of one (output tokens, but for the first)."""
    block_steps: Read[int] = Read("_blocks.total")
    """KV blocks held, summed over steps (blocks x steps)."""
    num_blocks: Read[int] = Read("_blocks.rate")
    """KV blocks held now."""

    def __init__(self, decode_epoch: Epoch, step_epoch: Epoch) -> None:
        self.prefill_tokens = 0
        self.recomputed_tokens = 0
        self.cached_tokens = 0
        self._decodes = _Rate(decode_epoch)
        self._blocks = _Rate(step_epoch)

    # The scheduler's side.
    def decoded(self, num_tokens: int) -> None:
        """Book decode tokens that were granted one by one."""
        self._decodes.add(num_tokens)

    def decoding(self, change: int) -> None:
        """Change the number of requests that decode one token an epoch."""
        self._decodes.change(change)

    def holds(self, change: int) -> None:
        """Change the number of blocks held."""
        self._blocks.change(change)


class Ledger:
    """Accounts by the key that ``SchedulingPolicy.account`` gave.

    An unknown account reads as one that was never served.
    """

    def __init__(self, decode_epoch: Epoch, step_epoch: Epoch) -> None:
        self._decode_epoch = decode_epoch
        self._step_epoch = step_epoch
        self._accounts: dict[Hashable, Account] = {}
        self._empty: Final = Account(decode_epoch, step_epoch)

    def __getitem__(self, key: Hashable) -> Account:
        return self._accounts.get(key, self._empty)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._accounts)

    def __len__(self) -> int:
        return len(self._accounts)

    def open(self, key: Hashable) -> Account:
        """The account of a key, opened if it is new. For the scheduler."""
        if key not in self._accounts:
            self._accounts[key] = Account(self._decode_epoch, self._step_epoch)
        return self._accounts[key]
