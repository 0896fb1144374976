"""Attention over the paged cache, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from .decode_attention import DecodeAttention
from .decode_groups import decode_groups
from .kept_groups import KeptGroups
from .paged_cache import PagedCache
from .prefill_attention import PrefillAttention
from .prefill_spans import prefill_spans
from .step_layout import StepLayout, unused_slots

if TYPE_CHECKING:
    from batchwright.messages import BlockCopy
    from batchwright.protocols.attention import AttentionBatch, AttentionSpec, LayerCall

    from .decode_groups import DecodeGroup
    from .prefill_spans import PrefillSpan

__all__ = ["PagedAttention"]

_CHUNK_TOKENS = {"cpu": 16_384, "cuda": 262_144}


@dataclass(frozen=True, eq=False, slots=True)
class _Work:
    """The work of the layers with one window in a step."""

    groups: list[DecodeGroup]
    spans: list[PrefillSpan]

    @property
    def num_rows(self) -> int:
        """Most cache rows that are gathered at once."""
        spans = (len(span.rows) for span in self.spans if span.rows is not None)
        return max(*(group.num_rows for group in self.groups), *spans, 0, 0)

    @property
    def num_scores(self) -> int:
        """Most pairs of a decode and a key that one call has."""
        scores = (g.num_reqs * (g.num_shared + g.num_keys) for g in self.groups)
        return max(scores, default=0)


class PagedAttention:
    """The implementation of ``TorchAttention``, which imports torch; see its contract."""

    def __init__(
        self, spec: AttentionSpec, num_blocks: int, chunk_tokens: int | None, kept_bytes: int
    ) -> None:
        self._spec = spec
        self._cache = PagedCache(spec, num_blocks)
        self._keeper = KeptGroups(spec, kept_bytes) if spec.device == "cpu" else None
        self._decodes = DecodeAttention(spec, self._cache, self._keeper)
        self._prefills = PrefillAttention(spec, self._cache)
        self._dtype: torch.dtype = getattr(torch, spec.dtype)
        self._chunk_tokens = chunk_tokens or _CHUNK_TOKENS[spec.device]

    def begin_step(self, batch: AttentionBatch) -> None:
        """Lay out the step once for each window that some layer has."""
        self._slots = batch.slot_mapping
        self._unused = unused_slots(batch, self._cache.block_size)
        if self._keeper is not None:
            self._keeper.begin_step()
        self._work = {
            window: self._lay_out(StepLayout(batch, self._cache, self._dtype, window))
            for window in dict.fromkeys(self._spec.sliding_windows)
        }
        self._cache.reserve(max(work.num_rows for work in self._work.values()))
        self._decodes.reserve(max(work.num_scores for work in self._work.values()))

    def _lay_out(self, layout: StepLayout) -> _Work:
        groups = decode_groups(layout, self._keeper, self._chunk_tokens)
        return _Work(groups, prefill_spans(layout, np.flatnonzero(layout.counts > 1)))

    def forward(self, call: LayerCall) -> torch.Tensor:
        """See ``AttentionBackend.forward``.

        All tokens are written before any is read: a request may read blocks that
        another one fills in the same step.
        """
        self._cache.write(call.layer, self._slots, call.key, call.value, self._unused)
        work = self._work[self._spec.sliding_windows[call.layer]]
        output = torch.empty(call.query.shape, dtype=call.query.dtype, device=call.query.device)
        for group in work.groups:
            self._decodes.attend(call, group, output)
        for span in work.spans:
            self._prefills.attend(call, span, output)
        return output

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        """See ``AttentionBackend.copy_blocks``."""
        self._cache.copy_blocks(copies)
        if copies and self._keeper is not None:
            self._keeper.forget()
