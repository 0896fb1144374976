"""The keys of some requests, one behind the other, as dense kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from attrs import frozen

from .query_tiles import to_device

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBatch

__all__ = ["GatheredKeys"]


@frozen(eq=False)
class GatheredKeys:
    """The cached tokens that the queries of some requests see, and the tokens of the queries.

    Args:
        tokens: ``[num_queries]`` int64, the queries' places in the batch.
        slots: ``[num_keys]`` int64, where in the cache the keys lie.
        query_lens: Queries a request.
        key_lens: Keys a request; its last query sees the last of them.
    """

    tokens: torch.Tensor
    slots: torch.Tensor
    query_lens: list[int]
    key_lens: list[int]

    @classmethod
    def of(
        cls,
        batch: AttentionBatch,
        requests: Sequence[int],
        starts: Sequence[int],
        *,
        window: int | None,
        block_size: int,
    ) -> GatheredKeys:
        """Take all tokens of some requests, and what they see.

        Args:
            batch: The step's batch.
            requests: Whose tokens; at least one request.
            starts: By request of the batch, the place of its first token.
            window: Tokens that a query sees, itself included; None: all before it.
            block_size: Tokens a block.
        """
        query_lens = [batch.query_lens[request] for request in requests]
        key_lens, parts = [], []
        for request, count in zip(requests, query_lens, strict=True):
            length = batch.seq_lens[request]
            begin = 0 if window is None else max(0, length - count + 1 - window)
            positions = torch.arange(begin, length)
            column = request * batch.block_tables.shape[1] + positions // block_size
            parts.append(torch.stack((column, positions % block_size)))
            key_lens.append(length - begin)
        cells, offsets = to_device([torch.cat(parts, 1).flatten()], batch.block_tables.device).view(
            2, -1
        )
        blocks = batch.block_tables.flatten().index_select(0, cells).long()
        tokens = [
            torch.arange(starts[request], starts[request] + count)
            for request, count in zip(requests, query_lens, strict=True)
        ]
        sent = to_device(tokens, batch.block_tables.device)
        return cls(sent, blocks * block_size + offsets, query_lens, key_lens)
