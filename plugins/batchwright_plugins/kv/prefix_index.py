"""Which blocks hold which content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

    def find(self, hashes: Sequence[bytes], most: int) -> list[int]:
        """Blocks of the longest published prefix of a chain, at most so many."""
        found: list[int] = []
        for digest in islice(hashes, most):
            block = self._blocks.get(digest)
            if block is None:
                break
            found.append(block if isinstance(block, int) else next(iter(block)))
        return found

    def add(self, blocks: Iterable[tuple[bytes, int]]) -> None:
        """Publish blocks that are not published: their digests and ids."""
        hash_of, known = self.hash_of, self._blocks
        for digest, block_id in blocks:
            hash_of[block_id] = digest
            others = known.setdefault(digest, block_id)
            if others == block_id:
                continue
            if isinstance(others, int):
                known[digest] = others = {others: None}
            others[block_id] = None

    def remove(self, block_ids: Iterable[int]) -> None:
        """Forget blocks; those that are not published are left alone."""
        hash_of, known = self.hash_of, self._blocks
        for block_id in block_ids:
            digest = hash_of[block_id]
            if digest is None:
                continue
            hash_of[block_id] = None
            blocks = known[digest]
            if isinstance(blocks, int):
                del known[digest]
                continue
            del blocks[block_id]
            if len(blocks) == 1:
                known[digest] = next(iter(blocks))

    def published(self) -> Iterator[int]:
        """Ids of the published blocks."""
        return (block_id for block_id, digest in enumerate(self.hash_of) if digest is not None)

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
