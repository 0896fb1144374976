"""Choose tokens from logits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from attrs import define, field

from batchwright.messages import TokenLogprobs

from .penalties import penalise
from .token_distribution import draw

if TYPE_CHECKING:
    import numpy as np

    from .sampling_table import SamplingRows

__all__ = ["Sample", "sample"]

_SECTIONS = 64, 512  # least and most tokens that are compared before their best ones are


@define
class Sample:
    """Sampled tokens, parallel to the rows.

    Args:
        token_ids: A token a row; any where its logits are not finite.
        failed: Rows whose logits are not finite.
        logprobs: By row, where asked for.
    """

    token_ids: list[int]
    failed: frozenset[int] = frozenset()
    logprobs: dict[int, TokenLogprobs] = field(factory=dict)


def sample(logits: torch.Tensor, rows: SamplingRows) -> Sample:
    """Choose one token a row.

    A row is greedy at temperature 0; the likeliest token with the lowest id wins.
    Log-probabilities are those of the model, before bans, penalties and temperature.

    Args:
        logits: ``[num_rows, vocab_size]``, any floating type; overwritten at bans and
            penalties.
        rows: Sampling parameters of each.
    """
    if rows.are_greedy:
        best, token_ids = _likeliest(logits)
        return Sample(token_ids.tolist(), _failed(best))
    wanted = rows.logprobs_wanted()
    likely = _log_softmax(logits, wanted)
    penalise(logits, rows)
    _ban(logits, rows)
    best, token_ids = _likeliest(logits)
    failed = _failed(best)
    if failed:
        logits[list(failed)] = 0  # nothing is drawn from them; the filters expect an order
    noisy = rows.column("temperature").nonzero()[0]
    if len(noisy):
        some = logits if len(noisy) == len(rows) else logits[torch.from_numpy(noisy)]
        token_ids[noisy] = _draw(some, rows.some(noisy))
    chosen = token_ids.tolist()
    return Sample(chosen, failed, _logprobs(likely, wanted, chosen, failed))


def _likeliest(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logit of each row and its token, the lowest of equal ones.

    Finding a largest value is several times faster than finding its place: the best
    section is found first, then the place in it.
    """
    num_rows, vocab_size = logits.shape
    least, most = _SECTIONS
    size = math.gcd(vocab_size, most)
    if size < least or logits.device.type != "cpu":
        return logits.max(-1)
    sections = logits.view(num_rows, -1, size)
    section = sections.amax(-1).max(-1).indices
    inside = sections[torch.arange(num_rows), section]
    best, place = inside.max(-1)
    return best, section * size + place


def _failed(best: torch.Tensor) -> frozenset[int]:
    finite = torch.isfinite(best)
    if finite.all():
        return frozenset()
    return frozenset((~finite).nonzero().squeeze(1).tolist())


def _ban(logits: torch.Tensor, rows: SamplingRows) -> None:
    pairs = [(row, token) for row, token in rows.banned() if 0 <= token < logits.shape[1]]
    if pairs:
        index, token_ids = torch.tensor(pairs, device=logits.device).T
        logits[index, token_ids] = -torch.inf


def _draw(logits: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(logits.device)

    return draw(
        logits.float(),
        tensor(rows.chances()),
        temperature=tensor(rows.column("temperature")),
        top_k=tensor(rows.column("top_k")),
        top_p=tensor(rows.column("top_p")),
        min_p=tensor(rows.column("min_p")),
    )


def _log_softmax(logits: torch.Tensor, wanted: dict[int, int]) -> dict[int, torch.Tensor]:
    if not wanted:
        return {}
    rows = list(wanted)
    return dict(zip(rows, logits[rows].float().log_softmax(-1), strict=True))


def _logprobs(
    likely: dict[int, torch.Tensor],
    wanted: dict[int, int],
    chosen: list[int],
    failed: frozenset[int],
) -> dict[int, TokenLogprobs]:
    answer = {}
    for row, values in likely.items():
        if row not in failed:
            top, ids = values.topk(min(wanted[row], len(values)))
            pairs = tuple(zip(ids.tolist(), top.tolist(), strict=True))
            answer[row] = TokenLogprobs(chosen[row], values[chosen[row]].item(), pairs)
    return answer
