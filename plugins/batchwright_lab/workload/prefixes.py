"""A tree of prefixes that prompts share."""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import frozen

from batchwright.option import option
from batchwright_lab.workload.prompts import SHARED_TOKENS

__all__ = ["Prefixes"]


@frozen
class Prefixes:
    """A tree: system prompts, and below each of them tools, examples, documents.

    Args:
        depth: Levels; 0: prompts share nothing.
        branching: Children of each node, the root included.
        tokens: Length of each node's piece.
        skew: 0: all children alike; 1: the n-th is chosen 1/n as often as the first.
    """

    depth: int = option(0, "", ge=0)
    branching: int = option(4, "", ge=1)
    tokens: int = option(128, "", unit="tokens", ge=1)
    skew: float = option(0.0, "", ge=0)

    def draw(self, chance: random.Random) -> Iterator[list[tuple[int, int]]]:
        """Paths from the root without end, as pieces (token, length)."""
        weights = [1 / (rank + 1) ** self.skew for rank in range(self.branching)]
        ranks = range(self.branching)
        while True:
            node, path = 0, []
            for rank in chance.choices(ranks, weights, k=self.depth) if self.depth else ():
                node = node * self.branching + rank + 1
                path.append((SHARED_TOKENS + node, self.tokens))
            yield path
