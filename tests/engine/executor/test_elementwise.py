"""Elementwise operations: compiled and by torch, with equal results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import gelu, silu

from batchwright_engine.executor import elementwise
from batchwright_engine.executor.elementwise import gate, normalise, rotate

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1.6e-2}
Compute = Callable[[], torch.Tensor]


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Callable[[Compute], None]:
    """Computes something with and without numba, and compares."""

    def compare(compute: Compute) -> None:
        assert elementwise._compiled() is not None
        one = compute()
        with monkeypatch.context() as patch:
            patch.setattr(elementwise, "_compiled", lambda: None)
            other = compute()
        tolerance = TOLERANCE[one.dtype]
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        assert one.shape == other.shape

    return compare


def draw(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(5, 24), (1, 7), (3, 2, 8)])
def test_normalise(dtype: torch.dtype, shape: tuple[int, ...], both_ways: Any) -> None:
    """Rows of any size, and heads."""
    x, gain = draw(*shape, dtype=dtype), draw(shape[-1], dtype=dtype)
    both_ways(lambda: normalise(x, gain, 1e-5))


def test_normalise_with_a_wider_gain(both_ways: Any) -> None:
    """Gemma's gain is in float32 whatever the model is in."""
    x, gain = draw(4, 16, dtype=torch.bfloat16), draw(16, dtype=torch.float32)
    both_ways(lambda: normalise(x, gain, 1e-6))


def test_normalise_equals_its_formula() -> None:
    """x / sqrt(mean of squares + eps) * gain: 3 and 4 have a mean square of 12.5."""
    answer = normalise(torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0]), 3.5)
    torch.testing.assert_close(answer, torch.tensor([[0.75, 2.0]]))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("rotary_size", [8, 4])
def test_rotate(dtype: torch.dtype, rotary_size: int, both_ways: Any) -> None:
    """Some heads of a wider row, in whole or in part; the rest stays as it is."""
    angles = torch.arange(5.0)[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.01])[: rotary_size // 2]
    cosines, sines = torch.ones(5, 1, 8), torch.zeros(5, 1, 8)
    cosines[:, 0, :rotary_size] = torch.cat((angles, angles), 1).cos()
    sines[:, 0, :rotary_size] = torch.cat((-angles, angles), 1).sin()
    row = draw(5, 6, 8, dtype=dtype)

    def compute() -> torch.Tensor:
        heads = row.clone()
        turned = rotate(heads[:, 1:4], cosines.to(dtype), sines.to(dtype), rotary_size)
        assert torch.equal(heads[:, 4:], row[:, 4:])
        assert torch.equal(heads[:, :1], row[:, :1])
        return turned.clone()

    both_ways(compute)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("activation", [silu, gelu])
def test_gate(dtype: torch.dtype, activation: Any, both_ways: Any) -> None:
    """silu is compiled, any other activation is torch's."""
    gate_up = 4 * draw(6, 20, dtype=dtype)
    both_ways(lambda: gate(gate_up, activation))


def test_gate_of_large_numbers_stays_finite() -> None:
    """silu goes to 0 on one side, and to its argument on the other."""
    answer = gate(torch.tensor([[-1e4, 1e4, -200.0, 1e30, 2.0, 2.0, 2.0, 1e8]]), silu)
    torch.testing.assert_close(answer, torch.tensor([[0.0, 2e4, 0.0, 1e38]]))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_many_tokens_are_shared_out(dtype: torch.dtype, both_ways: Any) -> None:
    """In parts; the last one is smaller, and a row may be a part by itself."""
    x, angles = draw(203, 600, dtype=dtype), draw(203, 1, 300, dtype=torch.float32)
    wide, gain = draw(3, 9000, dtype=dtype), draw(9000, dtype=dtype)
    cosines = torch.cat((angles, angles), -1).cos().to(dtype)
    sines = torch.cat((-angles, angles), -1).sin().to(dtype)
    both_ways(lambda: normalise(x, gain[:600], 1e-5))
    both_ways(lambda: normalise(wide, gain, 1e-5))
    both_ways(lambda: gate(x, silu))
    both_ways(lambda: rotate(x.view(203, 1, 600).clone(), cosines, sines, 600))


def test_no_tokens() -> None:
    """Nothing comes of nothing."""
    assert normalise(torch.ones(0, 8), torch.ones(8), 1e-5).shape == (0, 8)
    assert gate(torch.ones(0, 8), silu).shape == (0, 4)


def test_where_nothing_can_be_compiled_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library is no error."""
    monkeypatch.setattr(elementwise, "problem", lambda: "numba cannot be imported")
    assert elementwise._compiled.__wrapped__() is None


@pytest.mark.parametrize("gain", [torch.ones(7), torch.ones(8, 1), torch.ones(8).half()])
def test_a_gain_that_does_not_fit_is_refused(gain: torch.Tensor) -> None:
    """Compiled code would read what lies behind it."""
    with pytest.raises(ValueError, match=r"a norm over 8 numbers in torch.float32 takes"):
        normalise(torch.ones(2, 8), gain, 1e-5)


def test_other_types_are_left_to_torch() -> None:
    """Numbers of 64 bits are not read as such of 32."""
    x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    torch.testing.assert_close(normalise(x, torch.ones_like(x[0]), 0.0), x / 12.5**0.5)
    torch.testing.assert_close(gate(x, silu), silu(x[:, :1]) * 4)


def test_a_gain_may_lie_anywhere() -> None:
    """As every second number of others."""
    wide = torch.tensor([1.0, 9.0, 2.0, 9.0])
    answer = normalise(torch.tensor([[3.0, 4.0]]), wide[::2], 3.5)
    torch.testing.assert_close(answer, torch.tensor([[0.75, 2.0]]))


def test_what_does_not_lie_densely_is_computed_all_the_same(both_ways: Any) -> None:
    """Parts of wider rows, and heads one element of which is not behind the other."""
    wide, gain = draw(5, 40, dtype=torch.float32), torch.ones(20)
    angles = draw(5, 1, 4, dtype=torch.float32)
    cosines, sines = torch.cat((angles, angles), -1).cos(), torch.cat((-angles, angles), -1).sin()
    both_ways(lambda: normalise(wide[:, 3:23], gain, 1e-5))
    both_ways(lambda: gate(wide[:, 3:23], silu))
    both_ways(lambda: rotate(wide.clone().view(5, 8, 5).transpose(1, 2), cosines, sines, 8))
