"""Run the kernel of ``numba`` over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from batchwright.protocols.attention import LayerCall
from batchwright_engine.compiled.floats import as_word, is_half
from batchwright_engine.compiled.team import share_parts, share_rows

from .decode_segments import DecodeSegments
from .numba_kernels import attend_work, merge_work, write_work
from .paged_cache import PagedCache
from .prefill_attention import PrefillAttention
from .prefill_spans import prefill_spans
from .step_layout import StepLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec

    Numbers = NDArray[np.int64]


__all__ = ["NumbaPagedAttention"]

_LEAST_WORK = 1 << 19  # of a part; starting it takes a tenth as long
_PARTS_A_THREAD = 4  # so that one that is kept from running is not waited for
_MOST_ALONE = 1 << 22  # work that takes a thread as long as torch takes for a few tokens
_KEY_WORK = 2  # reading a key and its value takes as long as so many query heads with them


class _Decodes:
    """Those of a step under one window, and room for what is computed of them.

    Args:
        segments: Their keys.
        group_size: Query heads that share a key head.
        head_size: Elements a head.

    Attributes:
        segment_words: Of segments and parts; see ``numba_kernels``.
        room_words: Of what is computed.
        cut_at: Address of the tasks that were cut.
        num_cut: Their number.
    """

    def __init__(self, segments: DecodeSegments, group_size: int, head_size: int) -> None:
        count = len(segments.segments)
        scores = torch.empty(segments.num_parts, group_size * segments.most_keys)
        peaks, totals = torch.empty(2, count, group_size)
        sums = torch.empty(count, group_size * head_size)
        self.segments = segments
        self._room = scores, peaks, totals, sums
        self.segment_words = _address(segments.segments), count, _address(segments.parts)
        self.room_words = (
            scores.data_ptr(),
            segments.most_keys,
            peaks.data_ptr(),
            totals.data_ptr(),
            sums.data_ptr(),
        )
        self.cut_at, self.num_cut = _address(segments.cut), len(segments.cut)


class NumbaPagedAttention:
    """The implementation of ``NumbaAttention``, which imports numba; see its contract."""

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self._spec = spec
        self._cache = PagedCache(spec, num_blocks)
        self._prefills = PrefillAttention(spec, self._cache)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._group_size = spec.num_query_heads // spec.num_kv_heads
        self._no_sinks = torch.full((spec.num_query_heads,), -np.inf)
        half = is_half(self._dtype)
        self._write = write_work(half)
        self._attend = attend_work(half, self._group_size, spec.head_size)
        self._merge = merge_work(half, self._group_size, spec.head_size)

    def begin_step(self, batch: AttentionBatch) -> None:
        """Divide the step's decodes into parts, once for each window of some layer."""
        self._slots = batch.slot_mapping.contiguous()
        self._tables = batch.block_tables.int().contiguous()
        layouts = {
            window: StepLayout(batch, self._cache, self._dtype, window)
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        alone = self._alone(layouts[self._spec.sliding_windows[0]])
        others = np.flatnonzero(~alone)
        self._spans = {window: prefill_spans(layout, others) for window, layout in layouts.items()}
        self._decodes = {
            window: self._divide(layout, np.flatnonzero(alone))
            for window, layout in layouts.items()
        }
        rows = [span.rows for spans in self._spans.values() for span in spans]
        self._cache.reserve(max((len(some) for some in rows if some is not None), default=0))

    def _alone(self, layout: StepLayout) -> NDArray[np.bool_]:
        """Requests whose tokens are attended to each by itself.

        Decodes are, and few tokens behind a cached beginning: gathering that, and calling
        torch, would take longer.
        """
        num_keys = layout.counts * layout.lens
        is_short = self._work(num_keys) <= _MOST_ALONE * torch.get_num_threads()
        alone: NDArray[np.bool_] = (layout.counts == 1) | ((layout.lens > layout.counts) & is_short)
        return alone

    def _work(self, num_keys: Numbers) -> Numbers:
        """Return the work on as many keys, each of all heads."""
        spec = self._spec
        return num_keys * (spec.num_kv_heads * (self._group_size + _KEY_WORK) * spec.head_size)

    def _divide(self, layout: StepLayout, alone: Numbers) -> _Decodes | None:
        if not len(alone):
            return None
        counts = layout.counts[alone]
        requests = np.repeat(alone, counts)
        inside = np.arange(len(requests)) - np.repeat(counts.cumsum() - counts, counts)
        ends = np.repeat(layout.lens[alone] - counts + 1, counts) + inside
        begins = np.zeros_like(ends)
        if layout.window is not None:
            begins = np.maximum(ends - layout.window, 0)
        work = int(self._work((ends - begins).sum()))
        segments = DecodeSegments.divide(
            requests,
            layout.starts[requests] + inside,
            begins,
            ends,
            self._spec.num_kv_heads,
            max(1, min(_PARTS_A_THREAD * torch.get_num_threads(), work // _LEAST_WORK)),
        )
        return _Decodes(segments, self._group_size, self._spec.head_size)

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``.

        All tokens are written before any is read: a request may read blocks that
        another one fills in the same step.
        """
        self._store(call.layer, _packed_heads(call.key), _packed_heads(call.value))
        window = self._spec.sliding_windows[call.layer]
        output = torch.empty(call.query.shape, dtype=call.query.dtype)
        decodes = self._decodes[window]
        if decodes is not None:
            self._decode(call, decodes, _packed_heads(call.query), output)
        for span in self._spans[window]:
            self._prefills.attend(call, span, output)
        return output

    def _store(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Write the step's tokens into the cache."""
        spec, cache = self._spec, self._cache.layers[layer]
        share_rows(
            self._write,
            len(key),
            2 * spec.num_kv_heads * spec.head_size,
            cache.data_ptr(),
            spec.num_kv_heads,
            cache.shape[1],
            spec.head_size,
            self._cache.block_size,
            self._slots.data_ptr(),
            key.data_ptr(),
            key.stride(0),
            value.data_ptr(),
            value.stride(0),
        )

    def _decode(
        self, call: LayerCall, decodes: _Decodes, query: torch.Tensor, output: torch.Tensor
    ) -> None:
        cache, sinks = self._cache.layers[call.layer], self._no_sinks
        if call.sinks is not None:
            sinks = call.sinks.detach().float().contiguous()
        arguments = (
            query.data_ptr(),
            query.stride(0),
            cache.data_ptr(),
            self._spec.num_kv_heads,
            cache.shape[1],
            self._tables.data_ptr(),
            self._tables.shape[1],
            self._cache.block_size,
            *decodes.segment_words,
            as_word(call.scale),
            as_word(call.softcap or 0.0),
            sinks.data_ptr(),
            *decodes.room_words,
            output.data_ptr(),
            decodes.cut_at,
        )
        share_parts(self._attend, arguments, decodes.segments.num_parts)
        if decodes.num_cut:
            share_parts(self._merge, arguments, decodes.num_cut)

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)


def _packed_heads(tokens: torch.Tensor) -> torch.Tensor:
    """``[num_tokens, num_heads, size]`` where a token's heads follow each other."""
    return tokens if tokens.stride()[1:] == (tokens.shape[2], 1) else tokens.contiguous()


def _address(numbers: Numbers) -> int:
    address: int = numbers.ctypes.data
    return address
