"""Contents of KV blocks, followed from the plans alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from batchwright.messages import SchedulerOutput


@define(eq=False)
class BlockContents:
    """Leading positions of each block that are computed, or being computed.

    A position counts from the plan that computes it, since steps are computed in order. It
    counts no more once its step fails for the request that was to compute it; neither does
    any position that was computed behind it.

    Args:
        block_size: Positions (tokens) a block.
    """

    block_size: int
    _written: dict[int, int] = field(init=False, factory=dict)
    _in_flight: dict[int, dict[str, tuple[int, list[int]]]] = field(init=False, factory=dict)

    def num_written(self, block_id: int) -> int:
        """Leading positions of a block that hold, or will hold, what they should."""
        return self._written.get(block_id, 0)

    def clear(self) -> None:
        """Forget every block, since the executor has lost its memory."""
        self._written.clear()
        self._in_flight.clear()

    def empty(self, block_id: int) -> None:
        """Note a block that is handed out anew."""
        self._written[block_id] = 0

    def planned(self, plan: SchedulerOutput, tables: Mapping[str, list[int]]) -> None:
        """Note what a plan computes.

        Args:
            plan: The plan.
            tables: Block tables of its requests, by id.
        """
        for copy in plan.block_copies:
            self._written[copy.destination] = self.num_written(copy.source)
        computed = {}
        for request_id, start in plan.starts():
            table = list(tables.get(request_id, ()))
            self._write(table, start, start + plan.num_scheduled_tokens.get(request_id, 0))
            computed[request_id] = (start, table)
        self._in_flight[plan.step_id] = computed

    def updated(self, step_id: int, failed: Sequence[str]) -> None:
        """Note that a step is computed, but for the requests that it failed for.

        Args:
            step_id: The step.
            failed: Ids of those requests.
        """
        if failed:
            self._take_back(step_id, failed)
        self._in_flight.pop(step_id, None)

    def first_gap(self, table: list[int], num_tokens: int) -> int | None:
        """Find the first of a table's leading positions that is not computed.

        Returns:
            The position; None if all of them are.
        """
        size = self.block_size
        for index in range(-(-num_tokens // size)):
            block_id = table[index] if index < len(table) else 0
            written = self.num_written(block_id)
            if written < min(size, num_tokens - index * size):
                return index * size + written
        return None

    def _write(self, table: list[int], start: int, stop: int) -> None:
        """Extend what blocks hold; a gap before ``start`` stays a gap."""
        size = self.block_size
        for index in range(max(0, start) // size, min(-(-stop // size), len(table))):
            offset, end = max(0, start - index * size), min(size, stop - index * size)
            written = self.num_written(table[index])
            if written >= offset:
                self._written[table[index]] = max(written, end)

    def _take_back(self, step_id: int, failed: Sequence[str]) -> None:
        size, tables = self.block_size, self._tables_since(step_id)
        kept: dict[int, int] = {}
        for request_id in failed:
            self._spoil(kept, *tables.get(request_id, (0, [])))
        num_known = -1
        while num_known < len(kept):
            num_known = len(kept)
            for start, table in tables.values():
                if any(block in kept for block in table[: max(0, start) // size]):
                    self._spoil(kept, start, table)
        for block_id, count in kept.items():
            self._written[block_id] = min(self.num_written(block_id), count)

    def _spoil(self, kept: dict[int, int], start: int, table: list[int]) -> None:
        """Note what is left of the blocks that a request computes from a position on."""
        index, offset = divmod(max(0, start), self.block_size)
        for block_id in table[index : index + 1]:
            kept[block_id] = min(offset, kept.get(block_id, offset))
        kept.update(dict.fromkeys(table[index + 1 :], 0))

    def _tables_since(self, step_id: int) -> dict[str, tuple[int, list[int]]]:
        """Collect what is computed from a step on: first positions, and the longest tables."""
        found: dict[str, tuple[int, list[int]]] = {}
        for step, computed in self._in_flight.items():
            if step >= step_id:
                for request_id, (start, table) in computed.items():
                    found[request_id] = (found.get(request_id, (start, table))[0], table)
        return found
