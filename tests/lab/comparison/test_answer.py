"""The answer, in words."""

from __future__ import annotations

from batchwright_lab.comparison.answer import answer, warnings
from batchwright_lab.comparison.wording import TIMES

from .making import outcome, summary


def two(a: float, b: float, **figures: float) -> list[str]:
    return list(answer(summary(
        outcome("a", 4.0, 0, e2e_mean=a), outcome("a", 4.0, 1, e2e_mean=a * 1.1),
        outcome("b", 4.0, 0, e2e_mean=b, **figures), outcome("b", 4.0, 1, e2e_mean=b),
    )))  # fmt: skip


def test_best_is_named_with_its_figures_and_its_pairs() -> None:
    best, pairs, price = two(4.0, 2.0)
    assert best == "b has the lowest E2E mean: 2.00 s at 4 requests/s, against 4.20 s under a."
    assert pairs == (
        f"b is at 0.48{TIMES} of a (0.45{TIMES} to 0.50{TIMES} over seeds), "
        "better in 2 and worse in 0 of 2 paired runs."
    )
    assert price.startswith("It pays for that with neither latency nor")


def test_price_is_what_gets_worst() -> None:
    found = summary(
        outcome("a", 4.0, e2e_mean=4, ttft_p99=1, e2e_p99=10, output_tokens_per_s=100),
        outcome("b", 4.0, e2e_mean=2, ttft_p99=3, e2e_p99=20, output_tokens_per_s=90),
    )
    assert list(answer(found))[-1] == "Its price at 4 requests/s: TTFT p99 3.00 s against 1.00 s."


def test_baseline_may_be_best() -> None:
    best, pairs = two(1.0, 2.0)
    assert best == "a has the lowest E2E mean: 1.05 s at 4 requests/s, against 2.00 s under b."
    assert pairs.startswith(f"b is at 1.91{TIMES} of a (1.82{TIMES} to 2.00{TIMES} over ")


def test_seeds_that_disagree_do_not_tell() -> None:
    found = two(1.0, 1.05)
    assert found[0].startswith("These seeds do not tell a from b by E2E mean: 1.05 s")


def test_what_hardly_differs_is_said_to() -> None:
    assert two(1.0, 0.5)[0].startswith("b has the lowest")
    found = summary(outcome("a", 4.0, e2e_mean=1.0), outcome("b", 4.0, e2e_mean=0.995))
    assert next(answer(found)) == (
        "b and a hardly differ by E2E mean: 995 ms at 4 requests/s, against 1.00 s under a."
    )


def test_second_is_told_from_the_first_or_not() -> None:
    def second(*values: float) -> str:
        return list(answer(summary(
            outcome("a", None, 0, e2e_mean=9), outcome("a", None, 1, e2e_mean=9),
            outcome("b", None, 0, e2e_mean=2), outcome("b", None, 1, e2e_mean=2),
            *(outcome("c", None, seed, e2e_mean=value) for seed, value in enumerate(values)),
        )))[-1]  # fmt: skip

    assert second(3, 3) == (
        "Next is c with 3.00 s: better than b in 0 and worse in 2 of 2 paired runs."
    )
    assert second(1.9, 3) == (
        "Next is c with 2.45 s: better than b in 1 and worse in 1 of 2 paired runs; "
        "these seeds do not tell them apart."
    )


def test_shares_are_told_in_points() -> None:
    found = answer(summary(
        outcome("a", 1.0, attainment=0.5), outcome("a", 2.0, attainment=0.4),
        outcome("b", 1.0, attainment=0.7), outcome("b", 2.0, attainment=0.5), by="attainment",
    ))  # fmt: skip
    assert list(found)[:2] == [
        "b has the highest share of requests in time: 50.0% at 2 requests/s, "
        "against 40.0% under a.",
        "Over all 2 rates, b is at +15.0 points against a, "
        "better in 2 and worse in 0 of 2 paired runs.",
    ]


def test_one_policy_is_compared_with_nothing() -> None:
    found = summary(outcome("a", e2e_mean=2))
    assert list(answer(found)) == ["a: E2E mean 2.00 s; there is nothing to compare it with."]


def test_no_cell_and_no_sound_cell() -> None:
    assert list(answer(summary(outcome("a", fault="raised")))) == [
        "No policy has run without a fault."
    ]


def test_who_cannot_be_trusted_is_named() -> None:
    found = summary(
        outcome("a", e2e_mean=1), outcome("b", fault="raised: ouch"),
        outcome("c", e2e_mean=1, notes=("starves 2 of 9 requests",)), num_cells=4,
    )  # fmt: skip
    assert list(warnings(found)) == [
        "This is not all: 3 of 4 cells are done.",
        "b is not ranked; 1 of 1 cells failed: raised: ouch",
        "c: look at 1 of 1 cells; e.g. starves 2 of 9 requests",
    ]
