"""Chooses tokens from logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field, frozen

from batchwright.messages import TokenLogprobs
from batchwright.sampling_params import SamplingParams

from .random_stream import uniform
from .token_distribution import draw

__all__ = ["Sample", "SamplingRow", "sample"]


@frozen
class SamplingRow:
    """How one row of logits is to be sampled.

    Args:
        params: The request's parameters.
        key: Key of its random stream.
        position: Which of its output tokens this is, from 0.
        stop_ids: Tokens that end it.
    """

    params: SamplingParams
    key: int
    position: int
    stop_ids: tuple[int, ...] = ()

    @property
    def banned(self) -> tuple[int, ...]:
        """Tokens that it may not choose yet."""
        return self.stop_ids if self.position < self.params.min_tokens else ()


@define
class Sample:
    """What was chosen, parallel to the rows.

    Args:
        token_ids: A token a row; None where its logits are not finite.
        logprobs: By row, where asked for.
    """

    token_ids: list[int | None]
    logprobs: dict[int, TokenLogprobs] = field(factory=dict)


def sample(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> Sample:
    """Choose one token a row.

    A row is greedy at temperature 0; the likeliest token with the lowest id wins.
    Log-probabilities are those of the model, before bans and temperature.

    Args:
        logits: ``[num_rows, vocab_size]``, any floating type; overwritten at bans.
        rows: How to sample each.
    """
    likely = _log_softmax(logits, rows)
    _ban(logits, rows)
    best, token_ids = logits.max(-1)
    finite = torch.isfinite(best)
    if not finite.all():
        logits[~finite] = 0  # nothing is drawn from them; the filters expect an order
    noisy = [i for i, row in enumerate(rows) if row.params.temperature > 0]
    if noisy:
        some = logits if len(noisy) == len(rows) else logits[noisy]
        token_ids[noisy] = _draw(some, [rows[i] for i in noisy])
    pairs = zip(token_ids.tolist(), finite.tolist(), strict=True)
    chosen = [token if ok else None for token, ok in pairs]
    return Sample(chosen, _logprobs(likely, rows, chosen))


def _ban(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    pairs = [(i, token) for i, row in enumerate(rows) for token in row.banned]
    pairs = [(i, token) for i, token in pairs if 0 <= token < logits.shape[1]]
    if pairs:
        index, token_ids = torch.tensor(pairs, device=logits.device).T
        logits[index, token_ids] = -torch.inf


def _draw(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> torch.Tensor:
    def column(name: str) -> torch.Tensor:
        values = [getattr(row.params, name) for row in rows]
        return torch.tensor(values, dtype=torch.float64, device=logits.device)

    chance = [uniform(row.key, row.position) for row in rows]
    return draw(
        logits.float(),
        torch.tensor(chance, dtype=torch.float64, device=logits.device),
        temperature=column("temperature"),
        top_k=column("top_k").long(),
        top_p=column("top_p"),
        min_p=column("min_p"),
    )


def _log_softmax(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> dict[int, torch.Tensor]:
    wanted = [i for i, row in enumerate(rows) if row.params.logprobs is not None]
    if not wanted:
        return {}
    return dict(zip(wanted, logits[wanted].float().log_softmax(-1), strict=True))


def _logprobs(
    likely: dict[int, torch.Tensor], rows: Sequence[SamplingRow], chosen: Sequence[int | None]
) -> dict[int, TokenLogprobs]:
    answer = {}
    for i, values in likely.items():
        token = chosen[i]
        if token is not None:
            count = min(rows[i].params.logprobs or 0, len(values))
            top, ids = values.topk(count)
            pairs = tuple(zip(ids.tolist(), top.tolist(), strict=True))
            answer[i] = TokenLogprobs(token, values[token].item(), pairs)
    return answer
