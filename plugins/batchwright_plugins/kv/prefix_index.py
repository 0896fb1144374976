"""Which blocks hold which content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

__all__ = ["PrefixIndex"]


class PrefixIndex:
    """Published blocks by their hash.

    Several blocks may hold the same content, when equal requests were computed side
    by side; the one published first is found, and when it goes the next is.
    """

    def __init__(self, num_blocks: int) -> None:
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self._blocks: dict[bytes, int | dict[int, None]] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._blocks

    def __len__(self) -> int:
        return sum(len(b) if isinstance(b, dict) else 1 for b in self._blocks.values())

    def holds(self, block_id: int) -> bool:
        """Whether a block is published."""
        return self.hash_of[block_id] is not None

    def find(self, hashes: Sequence[bytes], most: int) -> list[int]:
        """Blocks of the longest published prefix of a chain, at most so many."""
        found: list[int] = []
        for digest in islice(hashes, most):
            block = self._blocks.get(digest)
            if block is None:
                break
            found.append(block if isinstance(block, int) else next(iter(block)))
        return found

    def add(self, digest: bytes, block_id: int) -> None:
        """Publish a block that is not published."""
        self.hash_of[block_id] = digest
        others = self._blocks.setdefault(digest, block_id)
        if others == block_id:
            return
        if isinstance(others, int):
            self._blocks[digest] = others = {others: None}
        others[block_id] = None

    def remove(self, block_id: int) -> None:
        """Forget a block; no effect if it is not published."""
        digest = self.hash_of[block_id]
        if digest is None:
            return
        self.hash_of[block_id] = None
        blocks = self._blocks[digest]
        if isinstance(blocks, int):
            del self._blocks[digest]
            return
        del blocks[block_id]
        if len(blocks) == 1:
            self._blocks[digest] = next(iter(blocks))

    def clear(self) -> None:
        """Forget every block."""
        self._blocks.clear()
        self.hash_of[:] = [None] * len(self.hash_of)

    def audit(self) -> Iterator[str]:
        """Check that both directions agree."""
        listed = {
            block_id: digest
            for digest, blocks in self._blocks.items()
            for block_id in ((blocks,) if isinstance(blocks, int) else blocks)
        }
        for block_id, digest in enumerate(self.hash_of):
            if listed.get(block_id) != digest:
                yield f"block {block_id} is published under another hash than its own"
