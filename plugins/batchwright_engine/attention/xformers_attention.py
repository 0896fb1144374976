"""Run xformers' kernels over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen
from xformers.ops import fmha
from xformers.ops.fmha import attn_bias, triton_splitk

from .block_cache import BlockCache
from .gathered_keys import GatheredKeys
from .query_rows import QueryRows

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall

__all__ = ["XformersPagedAttention"]

_BLOCKS = (64, 32, 16)  # keys that a program of the split-k kernel looks at together


@frozen(eq=False)
class _Step:
    """Data that the layers with one window share; None if there is none of it.

    Args:
        rows: Tokens for the split-k kernel.
        row_bias: Their mask.
        keys: Prefills for the dense kernel.
        key_bias: Their mask.
    """

    rows: QueryRows | None
    row_bias: Any
    keys: GatheredKeys | None
    key_bias: Any


class XformersPagedAttention:
    """The implementation of ``XformersAttention``, which imports xformers.

    Args:
        spec: The model.
        num_blocks: Blocks of the cache.
        gather_from: Tokens of a request from which its keys are gathered.
    """

    def __init__(self, spec: AttentionSpec, num_blocks: int, gather_from: int) -> None:
        self._spec = spec
        self._cache = BlockCache(spec, num_blocks)
        self._group = spec.num_query_heads // spec.num_kv_heads
        self._operator = _operator(spec.block_size)
        self._gather_from = gather_from if _has_dense_kernel() else None
        self._room = self._queries_for(0)

    def begin_step(self, batch: AttentionBatch) -> None:
        """Sort requests into rows and prefills, and make the masks of each window."""
        self._slots = batch.slot_mapping
        starts = [0, *accumulate(batch.query_lens)]
        rows, dense = self._sorted(batch)
        shared = QueryRows.of(batch, rows, starts) if rows else None
        self._steps = {
            window: self._step(batch, window, shared, dense, starts)
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        if shared is not None and shared.num_padded != len(self._room):
            self._room = self._queries_for(shared.num_padded)

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``; what is refused does not come here."""
        self._cache.write(call.layer, self._slots, call.key, call.value)
        step = self._steps[self._spec.sliding_windows[call.layer]]
        output = torch.empty(call.query.shape, dtype=call.query.dtype, device=call.query.device)
        if step.rows is not None:
            answer = self._by_row(call, step)
            output.index_copy_(0, step.rows.tokens, answer)
        if step.keys is not None:
            answer = self._gathered(call, step)
            output.index_copy_(0, step.keys.tokens, answer)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)

    def _sorted(self, batch: AttentionBatch) -> tuple[list[int], list[int]]:
        """Requests whose tokens are rows, and those whose keys are gathered."""
        rows: list[int] = []
        dense: list[int] = []
        for request, count in enumerate(batch.query_lens):
            is_dense = self._gather_from is not None and count >= self._gather_from
            (dense if is_dense else rows).append(request)
        return rows, dense

    def _step(
        self,
        batch: AttentionBatch,
        window: int | None,
        rows: QueryRows | None,
        dense: list[int],
        starts: list[int],
    ) -> _Step:
        keys = None
        if dense:
            size = self._spec.block_size
            keys = GatheredKeys.of(batch, dense, starts, window=window, block_size=size)
        return _Step(
            rows,
            None if rows is None else self._row_bias(rows, window),
            keys,
            None if keys is None else self._key_bias(keys, window),
        )

    def _row_bias(self, rows: QueryRows, window: int | None) -> Any:
        """Every row a sequence with one query, which sees what lies before its end.

        The paged causal masks refuse queries of unequal lengths, and know no window.
        """
        ones, size = [1] * rows.num_padded, self._spec.block_size
        if window is None:
            return attn_bias.PagedBlockDiagonalPaddedKeysMask.from_seqlens(
                ones, rows.ends, rows.block_tables, size, device=self._cache.device
            )
        begins = [max(0, end - window) for end in rows.ends]
        lens = [end - begin for end, begin in zip(rows.ends, begins, strict=True)]
        # The paged mask's own from_seqlens contradicts itself in 0.0.35: it asks for as
        # many starts as lengths, and then for one more.
        room = rows.block_tables.shape[1] * size
        starts = [*(row * room + begin for row, begin in enumerate(begins)), len(lens) * room]
        bias = attn_bias.BlockDiagonalGappyKeysMask.from_seqlens(
            ones, starts, lens, device=self._cache.device
        )
        paged = attn_bias.PagedBlockDiagonalGappyKeysMask
        return bias.make_paged(rows.block_tables, size, room, paged)

    def _key_bias(self, keys: GatheredKeys, window: int | None) -> Any:
        bias = attn_bias.BlockDiagonalCausalFromBottomRightMask.from_seqlens(
            keys.query_lens, keys.key_lens, device=self._cache.device
        )
        return bias if window is None else bias.make_local_attention_from_bottomright(window)

    def _queries_for(self, num_rows: int) -> torch.Tensor:
        """Room for the queries of so many rows."""
        shape = (num_rows, self._spec.num_query_heads, self._spec.head_size)
        dtype = getattr(torch, self._spec.dtype)
        return torch.zeros(shape, dtype=dtype, device=self._cache.device)

    def _by_row(self, call: LayerCall, step: _Step) -> torch.Tensor:
        assert step.rows is not None
        num_rows = len(step.rows.tokens)
        torch.index_select(call.query, 0, step.rows.tokens, out=self._room[:num_rows])
        inputs = fmha.Inputs(
            query=self._queries(self._room),
            key=self._shared(self._cache.keys[call.layer].flatten(0, 1)),
            value=self._shared(self._cache.values[call.layer].flatten(0, 1)),
            attn_bias=step.row_bias,
            scale=call.scale,
        )
        answer, _ = self._operator.apply(inputs, needs_gradient=False)
        rows: torch.Tensor = answer.reshape(self._room.shape)
        return rows[:num_rows]

    def _gathered(self, call: LayerCall, step: _Step) -> torch.Tensor:
        assert step.keys is not None
        keys, values = (
            cache[call.layer].flatten(0, 1).index_select(0, step.keys.slots)
            for cache in (self._cache.keys, self._cache.values)
        )
        answer = fmha.memory_efficient_attention_forward(
            self._queries(call.query.index_select(0, step.keys.tokens)),
            self._shared(keys),
            self._shared(values),
            attn_bias=step.key_bias,
            scale=call.scale,
        )
        queries: torch.Tensor = answer.reshape(-1, *call.query.shape[1:])
        return queries

    def _queries(self, query: torch.Tensor) -> torch.Tensor:
        """``[1, num_tokens, num_kv_heads, group_size, head_size]``."""
        return query.view(1, -1, self._spec.num_kv_heads, self._group, query.shape[2])

    def _shared(self, keys: torch.Tensor) -> torch.Tensor:
        """The same shape, every head of a group the same memory (a stride of zero)."""
        return keys.unsqueeze(2).expand(-1, -1, self._group, -1).unsqueeze(0)


def _operator(block_size: int) -> Any:
    """Xformers' split-k kernel, looking at as many keys together as a block allows."""
    columns = next(size for size in _BLOCKS if block_size % size == 0)
    return type("PagedSplitK", (triton_splitk.FwOp,), {"BLOCK_N": columns, "NAME": "paged_splitk"})


def _has_dense_kernel() -> bool:
    """Return True if xformers has a kernel for gathered prefills that works with this torch.

    That is torch's own FlashAttention or CUTLASS kernel, or xformers' compiled part.
    """
    return torch.cuda.is_available() and any(
        operator.is_available() for operator in (fmha.flash.FwOp, fmha.cutlass.FwOp)
    )
