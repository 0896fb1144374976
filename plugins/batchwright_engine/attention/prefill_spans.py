"""Tokens that are computed as prompts are: several of one request, or of several alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from .step_layout import Requests, StepLayout

__all__ = ["PrefillSpan", "prefill_spans"]


@dataclass(frozen=True, eq=False, slots=True)
class PrefillSpan:
    """Tokens of one request, or of several with equally many and nothing before them.

    Args:
        start: The first token's place in the batch.
        stop: Behind the last one.
        num_reqs: Requests.
        rows: ``[2 * num_kv_heads * num_blocks]`` int64, cache rows to gather; None if
            the step's own keys and values are all there is to see.
        blanks: Gathered tokens that are to be set to zero; None: none.
        bias: ``[stop - start, num_blocks * block_size]``, 0 for what a query sees, else
            minus infinity; None without rows.
    """

    start: int
    stop: int
    num_reqs: int = 1
    rows: torch.Tensor | None = None
    blanks: torch.Tensor | None = None
    bias: torch.Tensor | None = None


def prefill_spans(layout: StepLayout, requests: Requests) -> list[PrefillSpan]:
    """The spans of some requests with several tokens, in the order of the batch."""
    return list(_Spans(layout).make(requests.tolist()))


class _Spans:
    def __init__(self, layout: StepLayout) -> None:
        self._layout = layout

    def make(self, requests: list[int]) -> Iterator[PrefillSpan]:
        """Spans in the order of the batch; neighbours that are alike become one."""
        alike: list[int] = []
        for i in requests:
            if alike and (i != alike[-1] + 1 or not self._is_alike(i, alike[0])):
                yield self._fresh(alike)
                alike = []
            if self._is_fresh(i):
                alike.append(i)
            else:
                yield self._span(i)
        if alike:
            yield self._fresh(alike)

    def _is_fresh(self, request: int) -> bool:
        """Return True if its queries see only tokens of this step, and no window ends."""
        count = int(self._layout.counts[request])
        is_whole = bool(self._layout.lens[request] == count)
        return is_whole and (self._layout.window is None or count <= self._layout.window)

    def _is_alike(self, request: int, other: int) -> bool:
        counts = self._layout.counts
        return self._is_fresh(request) and bool(counts[request] == counts[other])

    def _fresh(self, requests: list[int]) -> PrefillSpan:
        start, stop = self._layout.starts[requests[0]], self._layout.starts[requests[-1] + 1]
        return PrefillSpan(int(start), int(stop), len(requests))

    def _span(self, request: int) -> PrefillSpan:
        only = np.array([request])
        start, count = int(self._layout.starts[request]), int(self._layout.counts[request])
        length, width = int(self._layout.lens[request]), int(self._layout.widths[request])
        first, lengths = (
            self._layout.tensor(a[only]).unsqueeze(1)
            for a in (self._layout.firsts, self._layout.lens)
        )
        queries = torch.arange(length - count, length, device=self._layout.device).unsqueeze(1)
        seen = self._layout.seen(first, width, queries)
        rows = self._layout.rows(only, first, width, lengths)
        blanks = self._layout.blanks(first, seen.any(0, keepdim=True))
        return PrefillSpan(start, start + count, 1, rows, blanks, self._layout.bias(seen))
