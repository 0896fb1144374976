"""Penalties on tokens that a request has had already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from .sampling_table import SamplingRows

__all__ = ["penalise"]


def penalise(logits: torch.Tensor, rows: SamplingRows) -> None:
    """Change the logits of rows that have penalties, in place.

    A token of the prompt or the output has its logit divided by the repetition penalty,
    or multiplied if it is negative (Keskar et al. 2019, section 4.1). Then an output
    token's is lowered by the frequency penalty, as often as it occurs, and by the
    presence penalty, once.

    Args:
        logits: ``[num_rows, vocab_size]``.
        rows: Sampling parameters of each.
    """
    index = rows.column("is_penalised").nonzero()[0]
    if not len(index):
        return
    some = rows.some(index)
    outputs, is_known = (torch.from_numpy(a).to(logits.device) for a in _counts(some, logits))
    place = torch.from_numpy(index).to(logits.device)
    values = logits[place].float()

    def column(name: str) -> torch.Tensor:
        penalties = torch.from_numpy(some.column(name).astype(np.float32))
        return penalties.to(logits.device).unsqueeze(1)

    repetition = column("repetition_penalty")
    repeated = torch.where(values > 0, values / repetition, values * repetition)
    values = torch.where(is_known, repeated, values)
    values -= outputs * column("frequency_penalty")
    values -= (outputs > 0) * column("presence_penalty")
    logits[place] = values.to(logits.dtype)


def _counts(rows: SamplingRows, logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of a row's output tokens, and a mask of its known tokens."""
    assert rows.tokens is not None
    assert rows.num_prompt_tokens is not None
    counts = np.zeros((len(rows), logits.shape[1]), np.float32)
    is_known = np.zeros(counts.shape, np.bool_)
    columns = zip(rows.rows, rows.num_prompt_tokens, rows.positions, strict=True)
    for i, (row, num_prompt, num_outputs) in enumerate(columns):
        known = rows.tokens[row, : num_prompt + num_outputs]
        is_known[i, known] = True
        np.add.at(counts[i], known[num_prompt:], 1)
    return counts, is_known
