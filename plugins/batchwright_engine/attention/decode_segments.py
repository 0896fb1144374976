"""The keys that a step's decodes attend to, divided into even parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

__all__ = ["DecodeSegments"]


@frozen(eq=False)
class DecodeSegments:
    """Tasks, each one token's attention with one key head, cut where a part ends.

    The tasks of a key head are neighbours: keys that several requests share are then
    still in a core's cache when the next one reads them.

    Args:
        segments: ``[num_segments, 6]``: request, its token's place in the batch, key
            head, first key, behind the last one, and whether it is all of its task.
        parts: ``[num_parts + 1]``, the first segment of each part.
        cut: ``[num_cut, 2]``, of each task that was cut its first segment, and behind
            its last one.
    """

    segments: Numbers
    parts: Numbers
    cut: Numbers

    @property
    def num_parts(self) -> int:
        """Parts."""
        return len(self.parts) - 1

    @property
    def most_keys(self) -> int:
        """Keys of the longest segment."""
        return int((self.segments[:, 4] - self.segments[:, 3]).max())

    @classmethod
    def divide(
        cls,
        requests: Numbers,
        tokens: Numbers,
        begins: Numbers,
        ends: Numbers,
        num_kv_heads: int,
        num_parts: int,
    ) -> DecodeSegments:
        """Divide the keys of all tasks into parts that differ by at most one.

        Args:
            requests: ``[num_reqs]``, places in the batch.
            tokens: ``[num_reqs]``, places of their tokens in the batch.
            begins: ``[num_reqs]``, first key that each sees.
            ends: ``[num_reqs]``, behind the last one; more than ``begins``.
            num_kv_heads: Key heads.
            num_parts: Parts; fewer where there are not as many keys.
        """
        counts = np.tile(ends - begins, num_kv_heads)
        bounds = np.append(0, counts.cumsum())
        cuts = bounds[-1] * np.arange(num_parts + 1) // num_parts
        starts = np.union1d(bounds, cuts)
        parts = np.searchsorted(starts, np.unique(cuts))
        firsts = np.searchsorted(starts, bounds)
        task = np.searchsorted(bounds, starts[:-1], side="right") - 1
        head, request = np.divmod(task, len(requests))
        shift = begins[request] - bounds[task]
        is_cut = np.diff(firsts) > 1
        columns = (
            requests[request],
            tokens[request],
            head,
            starts[:-1] + shift,
            starts[1:] + shift,
            ~is_cut[task],
        )
        cut = np.stack((firsts[:-1], firsts[1:]), 1)[is_cut]
        return cls(np.stack(columns, 1), parts, cut)
