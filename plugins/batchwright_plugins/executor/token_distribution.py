"""Draws from filtered distributions over a vocabulary, many rows at a time.

Each draw takes one uniform number and looks it up in the cumulated probabilities, so
that it is a function of the row's logits and that number alone.
"""

from __future__ import annotations

import torch

__all__ = ["draw", "kept"]

_NUM_CANDIDATES = (
    256  # likeliest tokens that are sorted first; sorting all is 20 times dearer
)
_SECTION = 256  # tokens that are summed before cumulating


def draw(
    logits: torch.Tensor,
    chance: torch.Tensor,
    *,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Draw one token a row.

    Args:
        logits: ``[num_rows, vocab_size]`` float32.
        chance: ``[num_rows]`` float64, uniform in [0, 1).
        temperature: ``[num_rows]`` float64, positive.
        top_k: ``[num_rows]`` int64; 0 keeps all.
        top_p: ``[num_rows]`` float64 in (0, 1].
        min_p: ``[num_rows]`` float64 in [0, 1].

    Returns:
        ``[num_rows]`` int64.
    """
    # Subtracting the largest first keeps a tiny temperature from overflowing.
    scaled = logits - logits.amax(-1, keepdim=True)
    scaled.div_(temperature.float().unsqueeze(1))
    weights = scaled.exp()
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    filtered = (top_k > 0) | (top_p < 1) | (min_p > 0)
    plain = (~filtered).nonzero().squeeze(1)
    if len(plain):
        tokens[plain] = _look_up(_some(weights, plain), chance[plain])
    pending = filtered.nonzero().squeeze(1)
    for num_candidates in (_NUM_CANDIDATES, logits.shape[1]):
        if not len(pending):
            break
        limits = top_k[pending], top_p[pending], min_p[pending]
        values, ids = _likeliest(_some(scaled, pending), num_candidates)
        keep, settled = kept(_some(weights, pending), values.exp(), *limits)
        place = _pick(values.exp().double() * keep, chance[pending])
        found = ids.gather(1, place.unsqueeze(1)).squeeze(1)
        tokens[pending[settled]] = found[settled]
        pending = pending[~settled]
    return tokens


def kept(
    weights: torch.Tensor,
    likeliest: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of the likeliest tokens survive min_p, then top_k, then top_p.

    Args:
        weights: ``[num_rows, vocab_size]`` float32 probabilities, the largest scaled to 1.
        likeliest: ``[num_rows, num_candidates]``, the largest of them, descending.
        top_k: As in ``draw``.
        top_p: As in ``draw``.
        min_p: As in ``draw``.

    Returns:
        A mask like ``likeliest``, and ``[num_rows]`` bool: whether the candidates were
        enough to know it. They are not where a token outside could survive as well.
    """
    floor = min_p.float().unsqueeze(1)
    rank = torch.arange(likeliest.shape[1], device=likeliest.device)
    most = torch.where(top_k > 0, top_k, weights.shape[1]).unsqueeze(1)
    keep = (likeliest >= floor) & (rank < most)
    inside = likeliest.double() * keep
    if min_p.any():
        weights = weights * (weights >= floor)
    reaches = keep[:, -1]  # the candidates end before min_p or top_k does
    whole = weights.sum(-1, dtype=torch.float64)
    mass = torch.where(reaches & (top_k == 0), whole, inside.sum(-1))
    before = inside.cumsum(-1) - inside
    nucleus = (before < (top_p * mass).unsqueeze(1)) | (top_p >= 1).unsqueeze(1)
    keep = keep & nucleus
    if likeliest.shape[1] == weights.shape[1]:
        return keep, torch.ones_like(top_k, dtype=torch.bool)
    last = likeliest.gather(1, keep.sum(-1, keepdim=True) - 1).squeeze(1)
    # An equal value outside would have an equal claim; the full sort settles it by id.
    return keep, (last > likeliest[:, -1]) & ~(reaches & (top_k > likeliest.shape[1]))


def _some(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """These rows, without a copy where they are all."""
    return values if len(rows) == len(values) else values[rows]


def _likeliest(scaled: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values, descending, equal ones by token id."""
    if count >= scaled.shape[1]:
        values, ids = scaled.sort(dim=-1, descending=True, stable=True)
        return values, ids
    values, ids = scaled.topk(count, dim=-1)
    ids, by_id = ids.sort(dim=-1)
    values, by_value = values.gather(1, by_id).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, by_value)


def _pick(weights: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """The first place where the cumulated weights exceed their share of the sum."""
    total = weights.cumsum(-1)
    target = (chance * total[:, -1]).unsqueeze(1)
    return (total <= target).sum(-1)


def _look_up(weights: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
    """As ``_pick``, over a whole vocabulary: first a section, then a token in it."""
    padding = -weights.shape[1] % _SECTION
    weights = torch.nn.functional.pad(weights, (0, padding))
    sections = weights.view(len(weights), -1, _SECTION)
    sums = sections.sum(-1, dtype=torch.float64)
    section = _pick(sums, chance)
    rows = torch.arange(len(weights), device=weights.device)
    before = sums.cumsum(-1)[rows, section] - sums[rows, section]
    rest = chance * sums.sum(-1) - before
    inner = sections[rows, section].double()
    place = (inner.cumsum(-1) <= rest.unsqueeze(1)).sum(-1)
    # The section's sum and its running sum may differ by a rounding error.
    last = (inner > 0).long().cumsum(-1).argmax(-1)
    return section * _SECTION + torch.minimum(place, last)
