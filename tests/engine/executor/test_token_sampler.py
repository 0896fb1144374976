"""Sampling: exact properties, against naive references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.sampling_params import SamplingParams
from batchwright_engine.executor.random_stream import stream_key, uniforms
from batchwright_engine.executor.sampler import Sample
from batchwright_engine.executor.sampler import sample as sample_rows
from batchwright_engine.executor.sampling_table import SamplingRows, SamplingTable
from batchwright_engine.executor.token_distribution import draw


def logits_of(seed: int, rows: int, vocab: int, dtype: torch.dtype) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, vocab, generator=random) * 3).to(dtype)


@frozen
class Row:
    """A row of logits as a test describes it."""

    params: SamplingParams
    key: int = 5
    position: int = 0
    stop_ids: tuple[int, ...] = ()
    prompt: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


def row(position: int = 0, key: int = 5, **params: Any) -> Row:
    return Row(SamplingParams(**params), key, position)


def sample(logits: torch.Tensor, rows: list[Row]) -> Sample:
    """Sample from a table made for these rows."""
    table = SamplingTable(len(rows))
    tokens = np.zeros((len(rows), 32), np.int64)
    for i, one in enumerate(rows):
        table.put(i, one.params, one.key, one.stop_ids)
        known = (*one.prompt, *one.outputs)
        tokens[i, : len(known)] = known
    positions = np.array([one.position for one in rows])
    lens = np.array([len(one.prompt) for one in rows])
    return sample_rows(logits, SamplingRows(table, np.arange(len(rows)), positions, tokens, lens))


def uniform(key: int, position: int) -> float:
    return float(uniforms(np.array([key], np.uint64), np.array([position]))[0])


def support(logits: torch.Tensor, params: dict[str, float]) -> list[int]:
    """Tokens that may be drawn, likeliest first, one token at a time."""
    scaled = logits.double() / params["temperature"]
    chance = (scaled - scaled.max()).exp().tolist()
    order = sorted(range(len(chance)), key=lambda t: (-logits[t].item(), t))
    order = [t for t in order if chance[t] >= params["min_p"]]
    order = order[: int(params["top_k"])] if params["top_k"] else order
    mass = math.fsum(chance[t] for t in order)
    kept: list[int] = []
    for token in order:
        if math.fsum(chance[t] for t in kept) >= params["top_p"] * mass and params["top_p"] < 1:
            break
        kept.append(token)
    return kept


def drawn(logits: torch.Tensor, chance: list[float], params: dict[str, float]) -> list[int]:
    """One draw from the same logits for each of these numbers."""

    def column(name: str) -> torch.Tensor:
        return torch.full((len(chance),), params[name], dtype=torch.float64)

    return draw(
        logits.float().expand(len(chance), -1).clone(),
        torch.tensor(chance, dtype=torch.float64),
        temperature=column("temperature"),
        top_k=column("top_k").long(),
        top_p=column("top_p"),
        min_p=column("min_p"),
    ).tolist()


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.sampled_from([1, 5, 100, 256, 300, 700]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    params=st.fixed_dictionaries(
        {
            "temperature": st.sampled_from([0.3, 1.0, 2.5, 50.0]),
            "top_k": st.sampled_from([0, 0, 1, 3, 255, 256, 400]),
            "top_p": st.sampled_from([1.0, 1.0, 0.05, 0.6, 0.97]),
            "min_p": st.sampled_from([0.0, 0.0, 0.02, 0.4, 1.0]),
        }
    ),
)
def test_draw_equals_a_naive_reference(
    seed: int, vocab: int, dtype: torch.dtype, params: dict[str, float]
) -> None:
    """Numbers spread over [0, 1) hit each kept token as often as its share says."""
    logits = logits_of(seed, 1, vocab, dtype)[0]
    kept = support(logits, params)
    count = 997
    tokens = drawn(logits, [(i + 0.5) / count for i in range(count)], params)
    scaled = logits.double() / params["temperature"]
    chance = (scaled - scaled.max()).exp()
    mass = chance[kept].sum()
    assert set(tokens) <= set(kept)
    for token in kept:
        expected = (chance[token] / mass).item() * count
        assert tokens.count(token) == pytest.approx(expected, abs=1.01)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), dtype=st.sampled_from([torch.float32, torch.bfloat16]))
def test_top_k_of_one_equals_greedy(seed: int, dtype: torch.dtype) -> None:
    """Ties, which bfloat16 has many of, included."""
    logits = logits_of(seed, 6, 1000, dtype)
    greedy = sample(logits.clone(), [row() for _ in range(6)]).token_ids
    random = [row(i, temperature=2.0, top_k=1) for i in range(6)]
    assert sample(logits.clone(), random).token_ids == greedy
    certain = [row(i, temperature=2.0, min_p=1.0, top_k=1) for i in range(6)]
    assert sample(logits.clone(), certain).token_ids == greedy
    assert logits.argmax(-1).tolist() == greedy


def test_greedy_takes_the_lowest_of_equal_tokens() -> None:
    """The same token wins whatever kernel looks for it."""
    logits = torch.zeros(3, 5000, dtype=torch.bfloat16)
    logits[1, 17] = logits[1, 4000] = 1
    assert sample(logits, [row(), row(), row(temperature=1.0, top_k=1)]).token_ids == [0, 17, 0]


@pytest.mark.parametrize("temperature", [1e-30, 1e-300])
def test_tiny_temperature_is_greedy_and_finite(temperature: float) -> None:
    """Dividing by next to nothing neither overflows nor divides zero by zero."""
    logits = logits_of(1, 4, 300, torch.float32)
    rows = [row(i, temperature=temperature, top_p=0.5 if i % 2 else 1.0) for i in range(4)]
    assert sample(logits.clone(), rows).token_ids == logits.argmax(-1).tolist()


def test_sample_does_not_depend_on_the_other_rows() -> None:
    """Alone, or among rows with every kind of parameters: the same token."""
    logits = logits_of(4, 8, 3000, torch.float32)
    rows = [
        row(0),
        row(1, temperature=1.0),
        row(2, temperature=1.0, top_k=700),
        row(3, temperature=3.0, top_p=0.9),
        row(4, temperature=1.0, min_p=0.01),
        row(5, temperature=0.7, top_k=50, top_p=0.9, min_p=0.05),
        row(6, temperature=20.0, top_p=0.999),
        row(7, temperature=1.0, logprobs=2),
    ]
    together = sample(logits.clone(), rows).token_ids
    alone = [sample(logits[i : i + 1].clone(), [r]).token_ids[0] for i, r in enumerate(rows)]
    assert together == alone
    backwards = sample(logits.flip(0), rows[::-1]).token_ids
    assert together == backwards[::-1]


def test_ban_ends_before_min_tokens() -> None:
    """Stop tokens are out of reach below min_tokens, and foreign ids do no harm."""
    logits = torch.zeros(3, 10)
    logits[:, 4] = 5
    logits[:, 7] = 4
    params = SamplingParams(min_tokens=2, max_tokens=5)
    rows = [Row(params, 1, position, (4, 99)) for position in range(3)]
    assert sample(logits, rows).token_ids == [7, 7, 4]


def test_banning_every_token_is_no_choice() -> None:
    """A vocabulary of stop tokens cannot be sampled before min_tokens."""
    params = SamplingParams(min_tokens=2, max_tokens=5)
    rows = [Row(params, 1, 0, (0, 1)), row()]
    answer = sample(torch.zeros(2, 2), rows)
    assert answer.failed == {0}
    assert answer.token_ids[1] == 0


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("params", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.5}])
def test_sample_leaves_out_rows_that_are_not_finite(poison: float, params: dict[str, Any]) -> None:
    """One bad logit spoils its row and no other."""
    logits = logits_of(2, 3, 400, torch.float32)
    rows = [row(i, **params) for i in range(3)]
    expected = sample(logits.clone(), rows).token_ids
    logits[1, 33] = poison
    answer = sample(logits, rows)
    assert answer.failed == {1}
    assert answer.token_ids[::2] == expected[::2]


def test_a_model_may_rule_tokens_out() -> None:
    """Minus infinity is a logit like any other as long as one token is left."""
    logits = torch.full((2, 50), -math.inf)
    logits[:, 3] = 0.0
    assert sample(logits, [row(), row(temperature=1.0)]).token_ids == [3, 3]


def test_logprobs_equal_log_softmax_before_bans_and_temperature() -> None:
    """The sampled token's own, and the likeliest ones in order."""
    logits = logits_of(3, 3, 200, torch.float32)
    expected = logits.log_softmax(-1)
    params = SamplingParams(temperature=5.0, logprobs=4, min_tokens=3, max_tokens=9)
    best = tuple(logits[0].topk(2).indices.tolist())
    rows = [Row(params, 1, 0, best), row(logprobs=0), row()]
    answer = sample(logits.clone(), rows)
    assert answer.logprobs.keys() == {0, 1}
    for i, entry in answer.logprobs.items():
        assert entry.token_id == answer.token_ids[i]
        assert entry.logprob == pytest.approx(expected[i, entry.token_id].item())
    assert [t for t, _ in answer.logprobs[0].top] == expected[0].topk(4).indices.tolist()
    assert answer.logprobs[1].top == ()


def test_uniform_is_spread_and_a_function_of_key_and_position() -> None:
    """Even in the mean and without a visible link between neighbours."""
    numbers = torch.tensor([uniform(stream_key(3, 0, ""), i) for i in range(20_000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.01)
    assert numbers.var().item() == pytest.approx(1 / 12, abs=0.003)
    assert abs(torch.corrcoef(torch.stack((numbers[:-1], numbers[1:])))[0, 1]) < 0.03
    assert uniform(7, 11) == uniform(7, 11)
    assert uniform(7, 11) != uniform(7, 12) != uniform(8, 12)


def test_stream_key_uses_the_seed_or_the_id() -> None:
    """A request's own seed counts alone; without one, the model's seed and the id do."""
    assert stream_key(3, 1, "a") == stream_key(3, 2, "b")
    assert len({stream_key(None, s, r) for s in (1, 2) for r in "ab"}) == 4
    assert stream_key(-1, 0, "") != stream_key(2**80, 0, "")


def penalised(logits: torch.Tensor, one: Row) -> list[float]:
    """Apply penalties to a row, one token at a time."""
    values = logits.tolist()
    for token in range(len(values)):
        if token in (*one.prompt, *one.outputs):
            rate = one.params.repetition_penalty
            values[token] = values[token] / rate if values[token] > 0 else values[token] * rate
        count = one.outputs.count(token)
        values[token] -= count * one.params.frequency_penalty
        values[token] -= (count > 0) * one.params.presence_penalty
    return values


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    presence=st.sampled_from([0.0, 0.7, -1.5]),
    frequency=st.sampled_from([0.0, 0.4, -2.0]),
    repetition=st.sampled_from([1.0, 1.8, 0.5]),
    prompt=st.lists(st.integers(0, 11), max_size=8).map(tuple),
    outputs=st.lists(st.integers(0, 11), max_size=8).map(tuple),
)
def test_penalties_equal_a_naive_reference(
    seed: int,
    presence: float,
    frequency: float,
    repetition: float,
    prompt: tuple[int, ...],
    outputs: tuple[int, ...],
) -> None:
    """Greedy among what they leave; a row without penalties beside it is untouched."""
    logits = logits_of(seed, 2, 12, torch.float32)
    params = SamplingParams(
        presence_penalty=presence, frequency_penalty=frequency, repetition_penalty=repetition
    )
    one = Row(params, 1, len(outputs), (), prompt, outputs)
    plain = Row(SamplingParams(), 1, len(outputs), (), prompt, outputs)
    values = penalised(logits[0], one)
    answer = sample(logits.clone(), [one, plain])
    assert values[answer.token_ids[0]] == pytest.approx(max(values), abs=1e-5)
    assert answer.token_ids[1] == logits[1].argmax().item()


def test_penalties_come_before_temperature_and_after_logprobs() -> None:
    """A forbidding penalty steers a draw, and the model's own log-probability is told."""
    logits = torch.tensor([[5.0, 4.9, -9.0]])
    params = SamplingParams(temperature=0.01, presence_penalty=2.0, logprobs=1)
    one = Row(params, 1, 1, (), (), (0,))
    answer = sample(logits.clone(), [one])
    assert answer.token_ids == [1]
    expected = logits.log_softmax(-1)[0]
    assert answer.logprobs[0].logprob == pytest.approx(expected[1].item())
    assert answer.logprobs[0].top[0][0] == 0


@pytest.mark.parametrize("vocab", [64, 6400, 6401])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_greedy_by_sections_equals_argmax(vocab: int, dtype: torch.dtype) -> None:
    """Whole sections or not; of equal logits the lowest token."""
    logits = logits_of(7, 50, vocab, dtype)
    expected = [row_.tolist().index(row_.max().item()) for row_ in logits]
    assert sample(logits, [row() for _ in range(50)]).token_ids == expected


def test_table_keeps_rows_when_it_grows() -> None:
    """Columns double; what was there stays, and the new rows are free."""
    table = SamplingTable(2)
    table.put(1, SamplingParams(temperature=0.5, logprobs=3), 9, (4,))
    table.grow()
    table.put(3, SamplingParams(), 11, (5, 6))
    rows = table.take(np.array([1, 3]), np.array([0, 0]))
    assert rows.column("temperature").tolist() == [0.5, 0.0]
    assert rows.logprobs_wanted() == {0: 3}
    assert (table.stop_ids(1), table.stop_ids(3)) == ((4,), (5, 6))
    assert not rows.are_greedy
    assert rows.some(np.array([1])).are_greedy
