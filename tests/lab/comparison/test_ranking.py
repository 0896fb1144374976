"""The table of the answer: a line for each policy."""

from __future__ import annotations

import attrs

from batchwright_lab.comparison.answer import answer
from batchwright_lab.comparison.ranking import ranked_lines
from batchwright_lab.comparison.wording import DASH, TIMES

from .making import outcome, summary


def test_every_policy_has_a_line() -> None:
    found = summary(
        outcome("a", 4.0, e2e_mean=4, ttft_p99=1, arrived=9),
        outcome("broken", 4.0, fault="raised"),
        attrs.evolve(outcome("b", 4.0, e2e_mean=2, ttft_p99=3), decision_seconds=0.002),
        outcome("c", 4.0, e2e_mean=3, arrived=9, refused=2, unfinished=1),
    )
    assert list(ranked_lines(found)) == [
        "Ranked by E2E mean beside a; latencies at 4 requests/s are means over seeds, of requests "
        "that ended by themselves:",
        "    policy  E2E mean  of a      better in  TTFT p99  TPOT p99  a decision  not served",
        f"1.  b       2.00 s    0.50{TIMES}     1 of 1     3.00 s    {DASH}         2 ms",
        f"2.  c       3.00 s    0.75{TIMES}     1 of 1     {DASH}         {DASH}        "
        "             2 of 9 refused, 1 unfinished",
        f"3.  a       4.00 s    baseline             1.00 s    {DASH}",
        f"{DASH}   broken  failed    {DASH}                    {DASH}         {DASH}",
    ]


def test_best_with_refusals_is_qualified() -> None:
    found = summary(
        outcome("a", None, e2e_mean=4, arrived=9, failed=1),
        outcome("b", None, e2e_mean=2, arrived=9, refused=3),
    )
    assert next(answer(found)) == (
        "b has the lowest E2E mean (3 of 9 refused; figures are of the others): 2.00 s, against "
        "4.00 s under a (1 of 9 failed)."
    )
