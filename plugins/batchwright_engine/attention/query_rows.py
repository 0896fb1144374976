"""Query tokens of one step as rows, each with a length and a block table of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from attrs import frozen

from .query_tiles import power_of_two, to_device

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBatch

__all__ = ["QueryRows"]

_LEAST_ROWS = 8
_LEAST_BLOCKS = 4


@frozen(eq=False)
class QueryRows:
    """Tokens that are computed one by one.

    xformers compiles its kernel anew for each number of rows and each width of the
    block tables. Both are padded to powers of two, so that few versions serve every
    step. A padding row sees no key.

    Args:
        tokens: ``[num_rows]`` int64, their places in the batch.
        ends: End of the keys that each row sees (a position); 0 for padding rows.
        block_tables: ``[num_padded, width]`` int32.
    """

    tokens: torch.Tensor
    ends: list[int]
    block_tables: torch.Tensor

    @property
    def num_padded(self) -> int:
        """Rows, padding included."""
        return len(self.ends)

    @classmethod
    def of(cls, batch: AttentionBatch, requests: Sequence[int], starts: Sequence[int]) -> QueryRows:
        """Take all tokens of some requests.

        Args:
            batch: The step's batch.
            requests: Whose tokens; at least one request.
            starts: By request of the batch, the place of its first token.
        """
        tokens: list[int] = []
        owners: list[int] = []
        ends: list[int] = []
        for request in requests:
            count, length = batch.query_lens[request], batch.seq_lens[request]
            tokens += range(starts[request], starts[request] + count)
            owners += [request] * count
            ends += range(length - count + 1, length + 1)
        tables = batch.block_tables
        pair = torch.tensor([tokens, owners])
        sent, owner = to_device([pair.flatten()], tables.device).view(2, -1)
        num_padded = max(_LEAST_ROWS, power_of_two(len(tokens)))
        width = max(_LEAST_BLOCKS, power_of_two(tables.shape[1]))
        padded = tables.new_zeros(num_padded, width)
        padded[: len(tokens), : tables.shape[1]] = tables.index_select(0, owner)
        ends += [0] * (num_padded - len(tokens))
        return cls(sent, ends, padded)
