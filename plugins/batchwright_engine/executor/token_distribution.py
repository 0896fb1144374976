"""Draw from filtered distributions over a vocabulary, many rows at a time.

Each draw takes one uniform number and looks it up in the cumulated probabilities, so
that it is a function of the row's logits and that number alone.
"""

from __future__ import annotations

import torch

__all__ = ["draw"]

_NUM_CANDIDATES = (256, 4096)  # likeliest tokens to look at before all are sorted
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
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    filtered = (top_k > 0) | (top_p < 1) | (min_p > 0)
    plain = (~filtered).nonzero().squeeze(1)
    if len(plain):
        weights = _weights(_some(logits, plain), temperature[plain])
        tokens[plain] = _look_up(weights, chance[plain])
    pending = filtered.nonzero().squeeze(1)
    for num_candidates in (*_NUM_CANDIDATES, logits.shape[1]):
        if not len(pending):
            break
        some, limits = _some(logits, pending), (top_k[pending], top_p[pending], min_p[pending])
        values, ids = _likeliest(some, num_candidates)
        weights = _weights(values, temperature[pending])
        whole = _whole(some, temperature[pending], *limits)
        keep, settled = _kept(weights, whole, logits.shape[1], *limits)
        place = _pick(weights.double() * keep, chance[pending])
        found = ids.gather(1, place.unsqueeze(1)).squeeze(1)
        tokens[pending[settled]] = found[settled]
        pending = pending[~settled]
    return tokens


def _kept(
    weights: torch.Tensor,
    whole: torch.Tensor,
    vocab_size: int,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mask of the likeliest tokens after min_p, then top_k, then top_p.

    Args:
        weights: ``[num_rows, num_candidates]`` float32, the largest probabilities,
            descending, scaled so that the first is 1.
        whole: ``[num_rows]`` float64, the sum over all tokens that survive min_p, where
            top_p needs it and top_k does not bound it.
        vocab_size: Tokens in all.
        top_k: As in ``draw``.
        top_p: As in ``draw``.
        min_p: As in ``draw``.

    Returns:
        A mask like ``weights``, and ``[num_rows]`` bool: whether the candidates were
        enough to know it. They are not where a token outside could survive as well.
    """
    num_candidates = weights.shape[1]
    rank = torch.arange(num_candidates, device=weights.device)
    most = torch.where(top_k > 0, top_k, vocab_size).unsqueeze(1)
    keep = (weights >= min_p.float().unsqueeze(1)) & (rank < most)
    reaches = keep[:, -1]  # the candidates end before min_p or top_k does
    inside = weights.double() * keep
    mass = torch.where(reaches & (top_k == 0), whole, inside.sum(-1))
    before = inside.cumsum(-1) - inside
    nucleus = (before < (top_p * mass).unsqueeze(1)) | (top_p >= 1).unsqueeze(1)
    keep = keep & nucleus
    if num_candidates == vocab_size:
        return keep, torch.ones_like(reaches)
    last = weights.gather(1, keep.sum(-1, keepdim=True) - 1).squeeze(1)
    # An equal value outside would have an equal claim; the full sort settles it by id.
    return keep, (last > weights[:, -1]) & ~(reaches & (top_k > num_candidates))


def _weights(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Probabilities, scaled so that the largest is 1.

    Subtracting the largest first keeps a tiny temperature from overflowing. One that
    float32 does not hold is not to become 0, or the largest would be 0 / 0.
    """
    shifted = logits - logits.amax(-1, keepdim=True)
    least = torch.finfo(torch.float32).tiny
    return shifted.div_(temperature.float().clamp_(min=least).unsqueeze(1)).exp_()


def _whole(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """The sum that ``_kept`` needs for some rows; zero for the others."""
    answer = torch.zeros_like(top_p)
    rows = ((top_k == 0) & (top_p < 1)).nonzero().squeeze(1)
    if len(rows):
        weights = _weights(_some(logits, rows), temperature[rows])
        weights *= weights >= min_p[rows].float().unsqueeze(1)
        answer[rows] = weights.sum(-1, dtype=torch.float64)
    return answer


def _some(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """These rows, without a copy where they are all."""
    return values if len(rows) == len(values) else values[rows]


def _likeliest(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values, descending, equal ones by token id."""
    if count >= logits.shape[1]:
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values, ids
    values, ids = logits.topk(count, dim=-1)
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
    if padding:
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
