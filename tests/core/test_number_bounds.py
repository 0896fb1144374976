"""Every number of a request has a least and a greatest value, and the message says them."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from batchwright import RequestRefusedError, SamplingParams
from batchwright.number_bounds import number_problem, shown

BOUNDS: dict[str, tuple[float, float]] = {
    "max_tokens": (1, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
    "temperature": (0, 1000),
    "top_p": (math.ulp(0.0), 1),
    "top_k": (0, 2**31 - 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (0.01, 100),
    "seed": (-(2**63), 2**64 - 1),
    "logprobs": (0, 2**31 - 1),
}
NO_NUMBERS: list[Any] = ["1", True, math.nan, math.inf, -math.inf, 10**400, -(10**400), [1], 1j]


def test_every_number_of_sampling_has_bounds() -> None:
    others = {field.name for field in attrs.fields(SamplingParams)} - set(BOUNDS)
    assert others == {"stop", "stop_token_ids", "ignore_eos"}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_within_and_what_is_beyond_is_not(name: str) -> None:
    least, most = BOUNDS[name]
    step = 1 if isinstance(least, int) else least
    for value in (least, most):
        params = {"max_tokens": None, name: value}
        assert SamplingParams(**params).problem() is None
    for value in (least - step, most + 1, *NO_NUMBERS):
        problem = SamplingParams(**{name: value}).problem()
        assert problem is not None
        assert problem.startswith(f"{name} must be a")
        assert problem.endswith(f"not {shown(value)}")


@pytest.mark.parametrize("token_id", [-1, 2**32, 10**400, True, 1.0, "1", None])
def test_stop_tokens_are_token_ids(token_id: Any) -> None:
    assert SamplingParams(stop_token_ids=[0, 2**32 - 1]).problem() is None
    expected = (
        f"stop_token_ids must hold token ids, integers from 0 to 4294967295, not {shown(token_id)}"
    )
    assert SamplingParams(stop_token_ids=[token_id]).problem() == expected


def test_a_message_holds_any_value() -> None:
    """Python refuses to write an integer of over 4,300 digits."""
    expected = "priority must be an integer from -9223372036854775808 to 9223372036854775807 "
    expected += "(smaller is more urgent), not -1234567890... (9000 digits)"
    assert number_problem("priority", -1234567890123 * 10**8987) == expected
    assert shown([10**5000]) == "a list"
    assert shown("x" * 99) == f"'{'x' * 56}..."


def test_others_go_on(make_bench: Any) -> None:
    b = make_bench()
    b.add("good", 4, 3)
    for name, value in (("top_k", 2**63), ("logprobs", 2**63), ("temperature", 10**400)):
        with pytest.raises(RequestRefusedError, match=f"{name} must be"):
            b.add("bad", 4, 3, sampling={name: value})
    b.drain()
    assert list(b.finished) == ["good"]
