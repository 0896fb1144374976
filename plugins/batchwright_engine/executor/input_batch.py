"""One step's input: the tokens of all its requests, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import frozen

from batchwright.protocols.attention import AttentionBatch

from .sampling_table import SamplingRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .request_table import Grants, RequestTable

__all__ = ["InputBatch"]


@frozen(eq=False)
class InputBatch:
    """A step's input, flat.

    Args:
        token_ids: ``[num_tokens]`` int64.
        positions: ``[num_tokens]`` int64, in each token's own sequence.
        logit_index: ``[num_rows]`` int64, the tokens whose logits are sampled.
        row_starts: ``[num_reqs + 1]``, the first row of each request: none where its scheduled
            tokens do not reach its last known token, else one more than it has drafts.
        sampling: Sampling parameters of each row.
        attention: Input of attention backends.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    logit_index: torch.Tensor
    row_starts: NDArray[np.int64]
    sampling: SamplingRows
    attention: AttentionBatch

    @classmethod
    def build(
        cls, table: RequestTable, grants: Grants, block_size: int, device: torch.device
    ) -> InputBatch:
        """Gather the scheduled tokens of these requests from the table."""
        rows, lens, computed = grants.rows, grants.lens, grants.computed
        starts = _starts(lens)
        positions = np.arange(starts[-1]) + np.repeat(computed - starts[:-1], lens)
        row_of = np.repeat(rows, lens)
        block_ids = table.blocks[row_of, positions // block_size].astype(np.int64)
        most = int(table.num_blocks[rows].max())
        row_starts, logit_index, sampling = _sampled(table, grants, starts)

        def tensor(values: NDArray[np.generic]) -> torch.Tensor:
            return torch.from_numpy(values).to(device, non_blocking=True)

        return cls(
            token_ids=tensor(table.tokens[row_of, positions]),
            positions=tensor(positions),
            logit_index=tensor(logit_index),
            row_starts=row_starts,
            sampling=sampling,
            attention=AttentionBatch(
                query_start_loc=tensor(starts.astype(np.int32)),
                query_lens=lens.tolist(),
                seq_lens=(computed + lens).tolist(),
                block_tables=tensor(table.blocks[rows, :most]),
                slot_mapping=tensor(block_ids * block_size + positions % block_size),
            ),
        )


def _sampled(
    table: RequestTable, grants: Grants, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], SamplingRows]:
    """The rows of logits of each request, and their meaning.

    The rows of a request are its last ones: its last known token's, then its drafts'.
    """
    reached = grants.computed + grants.lens - grants.num_drafts
    samples = reached >= table.num_tokens[grants.rows]
    counts = np.where(samples, grants.num_drafts + 1, 0)
    row_starts = _starts(counts)
    rank = np.arange(row_starts[-1]) - np.repeat(row_starts[:-1], counts)
    num_prompt = table.num_prompt_tokens[grants.rows]
    sampling = SamplingRows(
        table.sampling,
        np.repeat(grants.rows, counts),
        np.repeat(reached - num_prompt, counts) + rank,
        table.tokens,
        np.repeat(num_prompt, counts),
    )
    return row_starts, np.repeat(starts[1:] - counts, counts) + rank, sampling


def _starts(lens: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(len(lens) + 1, np.int64)
    np.cumsum(lens, out=starts[1:])
    return starts
