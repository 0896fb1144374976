"""Admission by the predicted peak of the batch's memory."""

from __future__ import annotations

from typing import Any

from batchwright.plugin import Gate
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Stop, Verdict


def test_who_would_burst_the_pool_later_waits_now(make_bench: Any) -> None:
    """12 tokens fit. A (3 + 5) and B (3 + 5) would need 2 * 7 before they end together."""
    pool = {"usable": 12, "block_size": 1}
    b = make_bench(sections=PEAK, **pool)
    b.add("A", 3, 5)
    b.add("B", 3, 5)
    assert b.steps(2) == [{"A": 3}, {"A": 1}]
    # A holds 4 of 7; in its last step, 3 steps on, B would hold 6.
    reason = "gate 'peak-memory': the batch would grow to 13 blocks, of which there are 12"
    assert b.scheduler.requests["B"].waiting_reason == reason
    # A step later they hold 7 + 5 at their fullest moment.
    assert b.steps(3) == [{"A": 1, "B": 3}, {"A": 1, "B": 1}, {"A": 1, "B": 1}]
    assert b.steps(2) == [{"B": 1}] * 2
    b.drain()
    # By its prompt alone B would have been let in at once, only to make room again.
    without = make_bench(**pool)
    two = [without.add("A", 3, 5), without.add("B", 3, 5)]
    without.drain()
    assert sum(request.num_preemptions for request in two) == 1


def test_blocks_that_come_back_in_time_are_counted(make_bench: Any) -> None:
    """C fits though the sum of all ends does not: A is gone before C has grown."""
    b = make_bench(sections=PEAK, usable=16, block_size=1)
    for name, prompt, length in (("A", 6, 3), ("B", 2, 6), ("C", 2, 4)):
        b.add(name, prompt, length)
    # At the ends: 8 + 4 + 4 = 16 when A ends, 2 * 5 + ... later; 8 + 7 + 5 = 20 in sum.
    assert b.step() == {"A": 6, "B": 2, "C": 2}
    b.drain()


PEAK = {"gate": [{"use": "full-need"}, {"use": "peak-memory"}]}


class AllEnds(Gate):
    """Admits while all ends together fit: safe as well, but nothing is ever given back."""

    name = "all-ends"

    def filter(self, request: Any, need: Any, hit: Any, view: Any) -> Verdict:
        size = self.ctx.sizes.block_size
        ends = [r.num_prompt_tokens + r.max_tokens - 1 for r in (*view.running, request)]
        fits = sum(-(-tokens // size) for tokens in ends) <= view.num_usable_blocks
        return ADMIT if fits else Stop("their ends together do not fit")


def test_exact_predictions_need_no_preemption(make_bench: Any) -> None:
    """With known lengths no request is ever preempted, and the pool is used well."""

    def run(b: Any) -> tuple[int, int]:
        requests = [b.add(f"r{i}", 5 + 11 * i % 17, 1 + 7 * i % 29) for i in range(60)]
        b.drain()
        return sum(r.num_preemptions for r in requests), b.scheduler.view.step_id

    pool = {"usable": 40, "block_size": 4}
    gates = {"gate": [{"use": "all-ends"}]}
    preemptions, steps = run(make_bench(sections=PEAK, **pool))
    _, safe_steps = run(make_bench(plugins=[make_plugin(gate=[AllEnds])], sections=gates, **pool))
    blind_preemptions, _ = run(make_bench(**pool))
    assert preemptions == 0 < blind_preemptions
    assert steps < 0.9 * safe_steps


def test_prompts_that_take_many_steps_fall_behind_those_that_decode(make_bench: Any) -> None:
    """While A's prompt is computed, 100 steps of 16 tokens, B grows by 100 tokens."""
    b = make_bench(sections=PEAK, budget=17, usable=1700, block_size=1)
    b.add("B", 16, 200)
    b.step()
    waiting = b.add("A", 1600, 2)
    assert b.step() == {"B": 1}  # at A's end B would hold 116 and more: it might be 215
    peak = "the batch would grow to 1816 blocks, of which there are 1700"
    assert waiting.waiting_reason == f"gate 'peak-memory': {peak}"
    b.drain()
    assert waiting.num_preemptions == 0


def test_caps_need_no_preemption_in_chunks_either(make_bench: Any) -> None:
    """Prompts of up to 90 tokens in steps of 9: under max-tokens there is no preemption."""
    b = make_bench(sections=PEAK, budget=9, max_num_seqs=8, usable=40, block_size=4)
    requests = [b.add(f"r{i}", 5 + 31 * i % 86, 1 + 17 * i % 59) for i in range(80)]
    b.drain()
    assert [r.num_preemptions for r in requests] == [0] * 80
