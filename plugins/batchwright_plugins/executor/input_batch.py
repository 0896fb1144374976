"""One step's input: the tokens of all its requests, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import frozen

from batchwright.protocols.attention import AttentionBatch

from .sampler import SamplingRow

if TYPE_CHECKING:
    from .request_table import RequestTable

__all__ = ["InputBatch", "RequestPart"]


@frozen
class RequestPart:
    """Which rows of logits are one request's.

    Args:
        req_id: Its id.
        start: Its first row.
        drafts: Draft tokens that its rows verify; it has one row more than that, or
            none if its grant does not reach its last known token.
        samples: Whether it has rows.
    """

    req_id: str
    start: int
    drafts: Sequence[int]
    samples: bool

    @property
    def stop(self) -> int:
        """Behind its last row."""
        return self.start + (len(self.drafts) + 1 if self.samples else 0)


@frozen(eq=False)
class InputBatch:
    """A step's input, flat.

    Args:
        token_ids: ``[num_tokens]`` int64.
        positions: ``[num_tokens]`` int64, in each token's own sequence.
        logit_index: ``[num_rows]`` int64, the tokens whose logits are sampled.
        rows: How to sample each of them.
        parts: The requests, in the order of the plan.
        attention: What attention backends need.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    logit_index: torch.Tensor
    rows: list[SamplingRow]
    parts: list[RequestPart]
    attention: AttentionBatch

    @classmethod
    def build(
        cls,
        table: RequestTable,
        granted: dict[str, int],
        drafts: dict[str, list[int]],
        block_size: int,
        device: torch.device,
    ) -> InputBatch:
        """Gather the granted tokens of these requests from the table."""
        states = [table.rows[req_id] for req_id in granted]
        rows = np.fromiter((s.row for s in states), np.int64, len(states))
        lens = np.fromiter(granted.values(), np.int64, len(states))
        computed = table.num_computed[rows]
        starts = np.concatenate([[0], lens.cumsum()])
        positions = np.arange(starts[-1]) + np.repeat(computed - starts[:-1], lens)
        row_of = np.repeat(rows, lens)
        block_ids = table.blocks[row_of, positions // block_size].astype(np.int64)
        parts, sampled, logit_index = _parts(table, granted, drafts, starts.tolist())
        most = int(table.num_blocks[rows].max())

        def tensor(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(values).to(device, non_blocking=True)

        return cls(
            token_ids=tensor(table.tokens[row_of, positions]),
            positions=tensor(positions),
            logit_index=tensor(np.array(logit_index, np.int64)),
            rows=sampled,
            parts=parts,
            attention=AttentionBatch(
                query_start_loc=tensor(starts.astype(np.int32)),
                query_lens=lens.tolist(),
                seq_lens=(computed + lens).tolist(),
                block_tables=tensor(table.blocks[rows, :most]),
                slot_mapping=tensor(block_ids * block_size + positions % block_size),
            ),
        )


def _parts(
    table: RequestTable, granted: dict[str, int], drafts: dict[str, list[int]], starts: list[int]
) -> tuple[list[RequestPart], list[SamplingRow], list[int]]:
    parts: list[RequestPart] = []
    rows: list[SamplingRow] = []
    logit_index: list[int] = []
    for i, (req_id, count) in enumerate(granted.items()):
        state = table.rows[req_id]
        some = drafts.get(req_id, ())
        reached = int(table.num_computed[state.row]) + count - len(some)
        samples = reached >= table.num_tokens[state.row]
        parts.append(RequestPart(req_id, len(rows), some, samples))
        if samples:
            first = reached - state.num_prompt_tokens
            rows += [
                SamplingRow(state.params, state.key, first + n, state.stop_ids)
                for n in range(len(some) + 1)
            ]
            logit_index += range(starts[i + 1] - len(some) - 1, starts[i + 1])
    return parts, rows, logit_index
