"""Numbers in compiled functions against torch's and numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from batchwright_engine.compiled.floats import (
    as_word,
    exp2,
    float_of,
    floats_at,
    indices_at,
    is_half,
    narrow,
    numbers_at,
    widen,
    words_at,
)


@njit
def round_trip(numbers: Any, target: Any) -> None:
    for i in range(numbers.shape[0]):
        target[i] = narrow(widen(numbers[i]), target)


def as_numpy(tensor: torch.Tensor) -> Any:
    """Its memory: float32, or 16 bits of each bfloat16."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


@njit
def powers(numbers: Any, target: Any) -> None:
    for i in range(numbers.shape[0]):
        target[i] = exp2(numbers[i])


@settings(deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_narrow_rounds_as_torch_does(values: list[float]) -> None:
    """To the nearest, the even one of two as near; infinity and NaN too."""
    wide = torch.tensor(values)
    narrowed = torch.empty(len(values), dtype=torch.bfloat16)
    round_trip(as_numpy(wide), as_numpy(narrowed))
    torch.testing.assert_close(narrowed, wide.bfloat16(), rtol=0, atol=0, equal_nan=True)


def test_narrow_of_a_number_between_two_takes_the_even_one() -> None:
    """Exactly in the middle, above an even and above an odd one, and a bit off it."""
    bits = torch.tensor([0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001], dtype=torch.int32)
    narrowed = torch.empty(4, dtype=torch.bfloat16)
    round_trip(as_numpy(bits.view(torch.float32)), as_numpy(narrowed))
    assert narrowed.view(torch.int16).tolist() == [0x3F80, 0x3F82, 0x3F80, 0x3F81]


def test_widen_is_exact() -> None:
    """Every bfloat16 is a float32."""
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    wide = torch.empty(1 << 16)
    round_trip(as_numpy(bits), as_numpy(wide))
    assert torch.equal(torch.isnan(wide), torch.isnan(bits))
    known = ~torch.isnan(bits)
    assert torch.equal(wide[known], bits[known].float())


def test_exp2_is_off_by_few_units_in_the_last_place() -> None:
    """Over all that it takes; whole numbers are exact."""
    numbers = np.linspace(-126, 126, 100_001, dtype=np.float32)
    result = np.empty_like(numbers)
    powers(numbers, result)
    expected = np.exp2(numbers.astype(np.float64))
    assert np.abs(result / expected - 1).max() < 4e-7
    whole = np.arange(-126, 127, dtype=np.float32)
    powers(whole, result)
    assert (result[: len(whole)] == np.exp2(whole)).all()


def test_exp2_beyond_its_range() -> None:
    """Nothing below, the largest it has above."""
    result = np.empty(4, np.float32)
    powers(np.array([-126.5, -1e30, -math.inf, 1e30], np.float32), result)
    assert result[:3].tolist() == [0.0, 0.0, 0.0]
    assert result[3] == np.float32(2.0**127)


@njit
def sums(addresses: Any) -> Any:
    """Of two numbers of each kind."""
    halves, floats = numbers_at(addresses[0], 2, 1), numbers_at(addresses[1], 2, 0)
    floats[1] *= np.float32(2.0)
    again, indices = floats_at(addresses[1], 2), indices_at(addresses[2], 2)
    words = words_at(addresses[3], 2)
    return widen(halves[0]) + widen(halves[1]), again[1], indices[1], words[1]


def test_numbers_at_addresses() -> None:
    """Read, and written to where they lie."""
    tensors = [
        torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        torch.tensor([0.25, 3.0]),
        torch.tensor([1, -2], dtype=torch.int32),
        torch.tensor([1, -(1 << 40)]),
    ]
    addresses = np.array([tensor.data_ptr() for tensor in tensors])
    assert sums(addresses) == (3.5, 6.0, -2, -(1 << 40))
    assert tensors[1].tolist() == [0.25, 6.0]
    assert [is_half(tensor.dtype) for tensor in tensors[:2]] == [1, 0]


@njit
def float_again(word: int) -> Any:
    return float_of(word)


@given(st.floats(width=32, allow_nan=False))
def test_a_float_goes_through_a_word(number: float) -> None:
    """Negative ones and infinity, too."""
    assert float_again(as_word(number)) == number
