"""Gathered keys and values that are kept from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchwright.protocols.attention import AttentionSpec

__all__ = ["Kept", "KeptGroups"]


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """Storage of a group's keys and values.

    Args:
        place: Which room it has.
        num_blocks: Blocks of each request; the room has no more: products of bfloat16
            would copy keys that do not lie densely.
        is_filled: True if all but this step's tokens are there already.
    """

    place: int
    num_blocks: int
    is_filled: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Seen:
    """A group as it was in the last step."""

    lens: NDArray[np.int64]
    tables: NDArray[np.int32]
    num_shared: int
    kept: Kept | None

    def goes_on(
        self, lens: NDArray[np.int64], tables: NDArray[np.int32], num_shared: int, size: int
    ) -> bool:
        """Return True if a group is this one, a token later.

        Blocks that were full or begun are the same, and so is what lies in them: a request
        that writes to a block owns it.
        """
        if len(lens) != len(self.lens) or num_shared != self.num_shared:
            return False
        width = min(tables.shape[1], self.tables.shape[1])
        used = np.arange(width) * size < self.lens[:, None]
        same = (tables[:, :width] == self.tables[:, :width]) | ~used
        return bool((lens == self.lens + 1).all() and same.all())


class KeptGroups:
    """Room for groups of decodes that go on unchanged from step to step.

    Gathering is most of the work of attention over short contexts. Requests that decode
    together in one step mostly do so in the next: then only their new tokens are added.
    A group is kept from the second step on in which it is seen, as far as memory goes;
    when a request joins, leaves or begins a block that no other one has, it is gathered
    anew.

    Args:
        spec: The model's attention.
        most_bytes: Memory for all layers and groups.
    """

    def __init__(self, spec: AttentionSpec, most_bytes: int) -> None:
        self._spec = spec
        self._most_bytes = most_bytes
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._before: dict[int, _Seen] = {}
        self._now: dict[int, _Seen] = {}
        self._rooms: list[list[torch.Tensor]] = []

    def begin_step(self) -> None:
        """Start a step: groups of the last step may continue in this one."""
        self._before, self._now = self._now, {}

    def forget(self) -> None:
        """Nothing goes on: blocks were changed by something else than a step."""
        self._now = {}

    def find(
        self, lens: NDArray[np.int64], tables: NDArray[np.int32], num_shared: int, num_blocks: int
    ) -> Kept | None:
        """See a group of the step.

        It is known again by the block of its first request's last token: no other one
        has written there.

        Args:
            lens: ``[num_reqs]``, tokens that each has in the cache after the step.
            tables: ``[num_reqs, max_blocks]``, their block tables.
            num_shared: Blocks that they share, which are not kept.
            num_blocks: Most blocks that one of them has beside these.

        Returns:
            Its storage; None if there is none.
        """
        size, last = self._spec.block_size, int(lens[0]) - 1
        before = self._before.get(int(tables[0, (last - 1) // size]))
        kept = None
        if before is not None and before.goes_on(lens, tables, num_shared, size):
            kept = self._keep(len(lens), num_blocks, before.kept)
        self._now[int(tables[0, last // size])] = _Seen(lens, tables, num_shared, kept)
        return kept

    def room(self, kept: Kept, layer: int, num_reqs: int) -> torch.Tensor:
        """A layer's keys and values, ``[2 * num_kv_heads * num_reqs, num_tokens, head_size]``."""
        spec = self._spec
        shape = (2 * spec.num_kv_heads * num_reqs, kept.num_blocks * spec.block_size)
        flat = self._rooms[kept.place][layer]
        return flat[: shape[0] * shape[1] * spec.head_size].view(*shape, spec.head_size)

    def _keep(self, num_reqs: int, num_blocks: int, before: Kept | None) -> Kept | None:
        if before is not None and num_blocks == before.num_blocks:
            return Kept(before.place, num_blocks, is_filled=True)
        place = self._free_place() if before is None else before.place
        if self._make_room(place, num_reqs * num_blocks):
            return Kept(place, num_blocks, is_filled=False)
        return None

    def _free_place(self) -> int:
        seen = (*self._before.values(), *self._now.values())
        taken = {one.kept.place for one in seen if one.kept is not None}
        return next(place for place in range(len(taken) + 1) if place not in taken)

    def _make_room(self, place: int, num_blocks: int) -> bool:
        """Have room for so many blocks of each head; say whether memory suffices."""
        spec = self._spec
        block = 2 * spec.num_kv_heads * spec.block_size * spec.head_size
        while len(self._rooms) <= place:
            empty = [torch.empty(0, dtype=self._dtype) for _ in range(spec.num_layers)]
            self._rooms.append(empty)
        rooms = self._rooms[place]
        if len(rooms[0]) >= num_blocks * block:
            return True
        others = sum(len(other[0]) for other in self._rooms) - len(rooms[0])
        num_bytes = (others + num_blocks * block) * spec.num_layers * self._dtype.itemsize
        if num_bytes > self._most_bytes:
            return False
        rooms[:] = [torch.empty(num_blocks * block, dtype=self._dtype) for _ in rooms]
        return True
