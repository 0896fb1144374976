"""Runs the kernel of ``numba`` over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch
from attrs import frozen

from batchwright.protocols.attention import LayerCall
from batchwright_plugins.compiled.floats import as_numpy, as_rows

from .decode_segments import DecodeSegments
from .numba_kernels import attend_kernel, merge_segments, write_tokens
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

_LEAST_WORK = 3 << 19  # of a part; waking a thread takes as long as half as much
_MOST_ALONE = 1 << 22  # work that takes a thread as long as torch takes for a few tokens
_KEY_WORK = 2  # reading a key and its value takes as long as so many query heads with them
_ONE_AT_A_TIME = Lock()  # numba's simplest threads bear no two callers


@frozen(eq=False)
class _Decodes:
    """Those of a step under one window, and room for what is computed of them.

    See ``numba_kernels`` for the shapes.
    """

    segments: DecodeSegments
    scores: NDArray[np.float32]
    peaks: NDArray[np.float32]
    totals: NDArray[np.float32]
    sums: NDArray[np.float32]

    @classmethod
    def reserve(cls, segments: DecodeSegments, group_size: int, head_size: int) -> _Decodes:
        count = len(segments.segments)
        shapes = (
            (segments.num_parts, group_size * segments.most_keys),
            (count, group_size),
            (count, group_size),
            (count, group_size * head_size),
        )
        return cls(segments, *(np.empty(shape, np.float32) for shape in shapes))


class NumbaPagedAttention:
    """What ``NumbaAttention`` does once numba is there; see its contract."""

    def __init__(self, spec: AttentionSpec, num_blocks: int) -> None:
        self._spec = spec
        self._cache = PagedCache(spec, num_blocks)
        self._prefills = PrefillAttention(spec, self._cache)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._group_size = spec.num_query_heads // spec.num_kv_heads
        self._layers = [as_numpy(layer) for layer in self._cache.layers]
        self._no_sinks = np.full(spec.num_query_heads, -np.inf, np.float32)
        self._compile()

    def _compile(self) -> None:
        """Attend to the null block, so that no request has to wait for a compiler."""
        spec, nought = self._spec, np.zeros(1, np.int64)
        self._tables = np.zeros((1, 2), np.int32)
        query = torch.zeros(1, spec.num_query_heads, spec.head_size, dtype=self._dtype)
        key = query[:, : spec.num_kv_heads]
        rows, call = as_rows(key), LayerCall(0, query, key, key, scale=1.0)
        write_tokens(self._layers[0], self._cache.block_size, nought[:0], *rows, *rows)
        for num_parts in (1, 2):
            segments = DecodeSegments.divide(
                nought, nought, nought, nought + 2, spec.num_kv_heads, num_parts
            )
            decodes = _Decodes.reserve(segments, self._group_size, spec.head_size)
            self._attend(call, decodes, torch.empty_like(query))

    def begin_step(self, batch: AttentionBatch) -> None:
        """Divide the step's decodes into parts, once for each window of some layer."""
        self._slots = as_numpy(batch.slot_mapping)
        self._tables = as_numpy(batch.block_tables)
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
        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
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
        """What as many keys, each of all heads, take."""
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
            max(1, min(torch.get_num_threads(), work // _LEAST_WORK)),
        )
        return _Decodes.reserve(segments, self._group_size, self._spec.head_size)

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``.

        All tokens are written before any is read: a request may read blocks that
        another one fills in the same step.
        """
        cache, size = self._layers[call.layer], self._cache.block_size
        write_tokens(cache, size, self._slots, *as_rows(call.key), *as_rows(call.value))
        window = self._spec.sliding_windows[call.layer]
        output = torch.empty(call.query.shape, dtype=call.query.dtype)
        decodes = self._decodes[window]
        if decodes is not None:
            self._attend(call, decodes, output)
        for span in self._spans[window]:
            self._prefills.attend(call, span, output)
        return output

    def _attend(self, call: LayerCall, decodes: _Decodes, output: torch.Tensor) -> None:
        cache, segments, sinks = self._layers[call.layer], decodes.segments, call.sinks
        is_parallel = segments.num_parts > 1
        kernel = attend_kernel(self._group_size, self._spec.head_size, is_parallel)
        with _ONE_AT_A_TIME if is_parallel else nullcontext():
            kernel(
                *as_rows(call.query),
                cache.reshape(-1),
                cache.shape[1],
                self._tables,
                self._cache.block_size,
                segments.segments,
                segments.parts,
                np.float32(call.scale),
                np.float32(call.softcap or 0.0),
                decodes.scores,
                decodes.peaks,
                decodes.totals,
                decodes.sums,
            )
        merge_segments(
            segments.segments,
            segments.firsts,
            decodes.peaks,
            decodes.totals,
            decodes.sums,
            self._no_sinks if sinks is None else sinks.detach().float().contiguous().numpy(),
            as_numpy(output),
        )

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)
