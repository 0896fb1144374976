"""Compiled products against float64."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright_engine.compiled import products
from batchwright_engine.compiled.products import COLUMNS, multiply_work, pack, serves
from batchwright_engine.executor.compiled_linear import CompiledLinear

LEAST = torch.ones(2, 2)
pytestmark = pytest.mark.skipif(not serves(LEAST), reason="a CPU without AVX-512")

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 8e-3}
"""Of the largest number that a result may have; bfloat16: a unit in its last place."""


def draw(generator: torch.Generator, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, generator=generator).to(dtype)


def check(num_rows: int, num_inputs: int, num_outputs: int, dtype: torch.dtype, extra: str) -> None:
    """Multiply, with a bias or what is added, between numbers that must stay as they are."""
    if not serves(LEAST.to(dtype)):
        pytest.skip("a CPU without products of bfloat16")
    generator = torch.Generator().manual_seed(num_rows * 31 + num_inputs * 7 + num_outputs)
    weight = draw(generator, num_outputs, num_inputs, dtype=dtype)
    x = draw(generator, num_rows, num_inputs, dtype=dtype)
    bias = draw(generator, num_outputs, dtype=dtype) if "bias" in extra else None
    residual = draw(generator, num_rows, num_outputs, dtype=dtype)
    linear = CompiledLinear(weight, bias)
    expected = x.double() @ weight.double().T
    if bias is not None:
        expected += bias.double()
    if "residual" in extra:
        before = residual.clone()
        answer, expected = linear.added_to(residual, x), expected + residual.double()
        assert torch.equal(residual, before)
    else:
        answer = linear(x)
    most = num_inputs**0.5 * 4 if dtype == torch.float32 else expected.abs() + num_inputs**0.5
    assert (answer.shape, answer.dtype) == ((num_rows, num_outputs), dtype)
    assert ((answer.double() - expected).abs() <= TOLERANCE[dtype] * most).all()


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(1, 40).map(lambda half: 2 * half),
    st.integers(1, 3 * COLUMNS + 1),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.sampled_from(["", "bias", "residual", "bias and residual"]),
)
def test_products_equal_those_in_float64(
    num_rows: int, num_inputs: int, num_outputs: int, dtype: torch.dtype, extra: str
) -> None:
    """Any number of rows, of which eight are computed at once, and a last panel of any width."""
    check(num_rows, num_inputs, num_outputs, dtype, extra)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_products_of_many_rows_are_shared_out(dtype: torch.dtype) -> None:
    """By rows, too: 256 a part, and the rest."""
    check(777, 66, 70, dtype, "bias")


def test_products_of_an_odd_number_of_inputs() -> None:
    """Only bfloat16 comes in pairs."""
    check(9, 7, 40, torch.float32, "residual")
    assert not serves(torch.ones(4, 7, dtype=torch.bfloat16))


def test_rows_that_do_not_lie_densely_are_copied() -> None:
    """As a part of each of some wider rows."""
    weight, wide = torch.eye(4), torch.arange(24.0).view(3, 8)
    linear = CompiledLinear(weight, None)
    assert torch.equal(linear(wide[:, 2:6]), wide[:, 2:6])
    assert torch.equal(linear.added_to(wide[:, :4], wide[:, 2:6]), wide[:, 2:6] + wide[:, :4])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_numbers_that_are_not_finite_are_not_hidden(dtype: torch.dtype, bad: float) -> None:
    """Nor do they reach other rows."""
    if not serves(LEAST.to(dtype)):
        pytest.skip("a CPU without products of bfloat16")
    x = torch.ones(9, 4, dtype=dtype)
    x[8, 1] = bad
    answer = CompiledLinear(torch.ones(33, 4, dtype=dtype), None)(x)
    assert not answer[8].isfinite().any()
    assert (answer[:8] == 4).all()


def test_weights_are_laid_out_by_input() -> None:
    """A panel after the other; its columns are outputs, the last of which may be none."""
    weight = torch.arange(1.0, 2 * COLUMNS + 3).view(-1, 2)
    packed = pack(weight)
    assert packed.data_ptr() % 64 == 0
    panels = packed.view(2, 2, COLUMNS)
    assert torch.equal(panels[0], weight[:COLUMNS].T)
    assert panels[1, :, 0].tolist() == weight[COLUMNS].tolist()
    assert not panels[1, :, 1:].any()


def test_pairs_of_bfloat16_stay_together() -> None:
    """Two inputs of an output, then those of the next one."""
    weight = torch.arange(4 * COLUMNS).view(COLUMNS, 4).bfloat16()
    pairs = pack(weight).view(2, COLUMNS, 2)
    assert torch.equal(pairs[0], weight[:, :2])
    assert torch.equal(pairs[1], weight[:, 2:])
    shifted = torch.cat((weight.new_zeros(1), weight.flatten()))[1:].view(COLUMNS, 4)
    assert torch.equal(pack(shifted).view(2, COLUMNS, 2), pairs)
    assert torch.equal(pack(weight.T.contiguous().T).view(2, COLUMNS, 2), pairs)


def test_a_cpu_without_the_instructions_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN knows more of them."""
    monkeypatch.setattr(products, "has", lambda feature: feature == "avx512f")
    assert serves(LEAST)
    assert not serves(LEAST.bfloat16())
    assert not serves(LEAST.half())
    monkeypatch.setattr(products, "has", lambda feature: feature != "amx-bf16")
    assert serves(LEAST.bfloat16())
    monkeypatch.setattr(products, "has", lambda _: True)
    assert not serves(LEAST.bfloat16())
    monkeypatch.setattr(products, "has", lambda _: False)
    assert not serves(LEAST)


@pytest.mark.parametrize(
    ("x", "residual"),
    [
        (torch.ones(2, 6, dtype=torch.bfloat16), None),
        (torch.ones(2, 6, dtype=torch.float64), None),
        (torch.ones(2, 5), None),
        (torch.ones(2, 3, 6), None),
        (torch.ones(6), None),
        (torch.ones(2, 6), torch.ones(2, 3)),
        (torch.ones(2, 6), torch.ones(1, 4)),
        (torch.ones(2, 6), torch.ones(2, 4, dtype=torch.bfloat16)),
    ],
    ids=lambda t: "" if t is None else f"{list(t.shape)} {t.dtype}",
)
def test_what_does_not_fit_the_weights_is_refused(
    x: torch.Tensor, residual: torch.Tensor | None
) -> None:
    """The kernel would read what lies behind it, and answer with that."""
    linear = CompiledLinear(torch.ones(4, 6), None)
    name = "input" if residual is None else "residual"
    with pytest.raises(ValueError, match=rf"6 inputs to 4 outputs takes .* as its {name}, not"):
        linear(x) if residual is None else linear.added_to(residual, x)


@pytest.mark.parametrize("bias", [torch.ones(3), torch.ones(4, dtype=torch.bfloat16)])
def test_a_bias_that_does_not_fit_the_weights_is_refused(bias: torch.Tensor) -> None:
    """Before anything is multiplied."""
    with pytest.raises(ValueError, match=r"takes \[4\] in torch.float32 as its bias, not"):
        CompiledLinear(torch.ones(4, 6), bias)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NUMBA_CPU_NAME": "generic"}, "False"),
        ({"NUMBA_CPU_NAME": "skylake", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma"}, "False"),
        ({}, "True"),
    ],
)
def test_another_cpu_that_is_compiled_for_is_not_asked_for_more(
    variables: dict[str, str], expected: str
) -> None:
    """As for a cache that different machines share; LLVM would end the process."""
    program = (
        "import torch\n"
        "from batchwright_engine.compiled.products import serves\n"
        "print(any(serves(torch.ones(2, 2, dtype=d)) for d in (torch.float32, torch.bfloat16)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected


def test_a_part_is_no_more_than_its_rows_and_panels() -> None:
    """The rest is left to other parts."""
    x, weights = torch.ones(5, 2), pack(torch.ones(3 * COLUMNS, 2))
    result = torch.zeros(5, 3 * COLUMNS)
    shape = (5, 2, 3 * COLUMNS, 2, 1)
    addresses = (x.data_ptr(), weights.data_ptr(), 0, 0, result.data_ptr())
    words = (ctypes.c_int64 * 10)(*addresses, *shape)
    work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(multiply_work(0).address)
    work(words, 4)  # of three by three: the second rows, the second panel
    expected = torch.zeros(5, 3 * COLUMNS)
    expected[2:4, COLUMNS : 2 * COLUMNS] = 2
    assert torch.equal(result, expected)


def test_a_bias_may_lie_anywhere() -> None:
    """As every second number of others."""
    bias = torch.arange(8.0)[::2]
    assert torch.equal(CompiledLinear(torch.zeros(4, 2), bias)(torch.ones(1, 2))[0], bias)
