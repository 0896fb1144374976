"""Runs the kernel of ``numba`` over a paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numba
import numpy as np
import torch

from batchwright_plugins.compiled.floats import as_numpy

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

    from .prefill_spans import PrefillSpan

__all__ = ["NumbaPagedAttention"]

_LEAST_WORK = 1 << 20  # products of a part; waking a thread takes as long as half as many
_ONE_AT_A_TIME = Lock()  # numba's simplest threads bear no two callers


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
        self._room = np.empty(0, np.float32)

    def begin_step(self, batch: AttentionBatch) -> None:
        """Divide the step's decodes into parts, once for each window of some layer."""
        self._slots = as_numpy(batch.slot_mapping)
        self._tables = as_numpy(batch.block_tables)
        layouts = {
            window: StepLayout(batch, self._cache, self._dtype, window)
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        self._spans = {window: prefill_spans(layout) for window, layout in layouts.items()}
        self._decodes = {window: self._divide(layout) for window, layout in layouts.items()}
        spans = [span for some in self._spans.values() for span in some if span.rows is not None]
        self._cache.reserve(max((len(span.rows) for span in spans), default=0))

    def _divide(self, layout: StepLayout) -> DecodeSegments | None:
        decodes = np.flatnonzero(layout.counts == 1)
        if not len(decodes):
            return None
        lens = layout.lens[decodes]
        begins = np.zeros_like(lens)
        if layout.window is not None:
            begins = np.maximum(lens - layout.window, 0)
        num_keys = int((lens - begins).sum()) * self._spec.num_kv_heads
        work = num_keys * self._group_size * self._spec.head_size
        num_parts = max(1, min(torch.get_num_threads(), work // _LEAST_WORK))
        return DecodeSegments.divide(
            decodes, layout.starts[decodes], begins, lens, self._spec.num_kv_heads, num_parts
        )

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """See ``AttentionBackend.forward``.

        All tokens are written before any is read: a request may read blocks that
        another one fills in the same step.
        """
        write_tokens(
            self._layers[layer], self._cache.block_size, self._slots, as_numpy(key), as_numpy(value)
        )
        window = self._spec.sliding_windows[layer]
        output = torch.empty(query.shape, dtype=query.dtype)
        decodes = self._decodes[window]
        if decodes is not None:
            self._attend(layer, decodes, query, output, scale, (softcap, sinks))
        for span in self._spans[window]:
            extra = softcap, sinks
            self._prefills.attend(layer, span, (query, key, value), output, scale, extra)
        return output

    def _attend(
        self,
        layer: int,
        decodes: DecodeSegments,
        query: torch.Tensor,
        output: torch.Tensor,
        scale: float,
        extra: tuple[float | None, torch.Tensor | None],
    ) -> None:
        cache, (softcap, sinks) = self._layers[layer], extra
        num, size = self._group_size, self._spec.head_size
        scores, peaks, totals, sums = self._rooms(decodes)
        kernel = attend_kernel(num, size, decodes.num_parts > 1)
        with _ONE_AT_A_TIME:
            numba.set_num_threads(min(decodes.num_parts, numba.config.NUMBA_NUM_THREADS))
            kernel(
                as_numpy(query),
                cache.reshape(-1),
                cache.shape[1],
                cache.size // 2,
                self._tables,
                self._cache.block_size,
                decodes.segments,
                decodes.parts,
                np.float32(scale),
                np.float32(softcap or 0.0),
                scores,
                peaks,
                totals,
                sums,
            )
        logits = self._no_sinks if sinks is None else sinks.float().numpy()
        merge_segments(
            decodes.segments, decodes.firsts, peaks, totals, sums, logits, as_numpy(output)
        )

    def _rooms(self, decodes: DecodeSegments) -> tuple[NDArray[np.float32], ...]:
        """Room for scores, and for peaks, totals and sums of every segment."""
        num, size = self._group_size, self._spec.head_size
        shapes = (
            (decodes.num_parts, num * decodes.most_keys),
            (len(decodes.segments), num),
            (len(decodes.segments), num),
            (len(decodes.segments), num * size),
        )
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        if ends[-1] > len(self._room):
            self._room = np.empty(ends[-1], np.float32)
        parts = np.split(self._room[: ends[-1]], ends[:-1])
        return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)
