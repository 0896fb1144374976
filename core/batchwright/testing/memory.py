"""Paged memory for a model without weights."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from batchwright.exceptions import InvariantError


class PagedMemory:
    """``num_blocks`` blocks of ``block_size`` words, addressed through block tables.

    A word of 0 is an empty slot. Block 0 is the null block: nothing may be written there.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._words = array("Q", bytes(8 * num_blocks * block_size))

    def read(self, table: Sequence[int], num_tokens: int) -> array[int]:
        """Read the words of a sequence's first positions.

        Args:
            table: Its blocks.
            num_tokens: Number of positions (tokens).

        Raises:
            InvariantError: The table is too short.
        """
        size, words = self.block_size, array("Q")
        for index in range(-(-num_tokens // size)):
            start = self._block(table, index) * size
            words += self._words[start : start + min(size, num_tokens - index * size)]
        return words

    def word(self, table: Sequence[int], position: int) -> int:
        """Read one position's word."""
        index, offset = divmod(position, self.block_size)
        return self._words[self._block(table, index) * self.block_size + offset]

    def write(self, table: Sequence[int], position: int, word: int) -> None:
        """Write one position's word.

        Raises:
            InvariantError: The table has no block there, or the null block.
        """
        index, offset = divmod(position, self.block_size)
        self._words[self._block(table, index) * self.block_size + offset] = word

    def copy_block(self, source: int, destination: int) -> None:
        """Copy a whole block."""
        size = self.block_size
        start, target = source * size, destination * size
        self._words[target : target + size] = self._words[start : start + size]

    def clear(self) -> None:
        """Empty every slot."""
        self._words = array("Q", bytes(8 * len(self._words)))

    def _block(self, table: Sequence[int], index: int) -> int:
        if index >= len(table):
            raise InvariantError(
                "I4", f"a table of {len(table)} blocks has no slot in block {index} of it"
            )
        block_id = table[index]
        if not 0 < block_id < self.num_blocks:
            raise InvariantError("I4", f"block {block_id} is not one that requests may hold")
        return block_id
