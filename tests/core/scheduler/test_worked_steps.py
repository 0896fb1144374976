"""Part 1 of the worked cases: exact steps, the same for every block hash."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.plugin import hookimpl
from batchwright.protocols import Gate
from batchwright.verdicts import ADMIT, Defer, Wait


@pytest.fixture(params=["sha256", "xxh3-128"])
def bench(make_bench: Any, request: Any) -> Any:
    """A bench under the default configuration and either hash."""

    def make(**options: Any) -> Any:
        kv = {"hasher": request.param, **options.pop("kv", {})}
        return make_bench(kv=kv, **options)

    return make


def computed_at_start(bench: Any) -> dict[str, int]:
    return {new.req_id: new.num_computed_tokens for new in bench.plan.scheduled_new_reqs}


def test_budget_chunking_and_prefix_hit(bench: Any) -> None:
    """C is cut by the budget; D starts at 8 computed tokens, X's."""
    b = bench(block_size=4, budget=16)
    x = b.tokens(10)
    b.add("X", x, 1)
    b.drain()
    b.add("A", 3, 50)
    b.add("B", 3, 50)
    b.step()
    b.add("C", 20, 50)
    b.add("D", [*x[:8], *b.tokens(4)], 50)

    assert list(b.schedule().items()) == [("A", 1), ("B", 1), ("C", 14)]
    b.update()
    assert list(b.schedule().items()) == [("A", 1), ("B", 1), ("C", 6), ("D", 4)]
    assert b.plan.total_num_scheduled_tokens == 12
    assert computed_at_start(b) == {"D": 8}
    b.update()
    assert list(b.schedule().items()) == [("A", 1), ("B", 1), ("C", 1), ("D", 1)]


def test_one_budget_for_all_kinds(bench: Any) -> None:
    """Decodes, a chunk and a new prompt share one budget."""
    b = bench(budget=512)
    b.add("B", 1, 50)
    b.add("C", 1, 50)
    b.step()
    b.add("A", 910, 50)
    assert b.step() == {"B": 1, "C": 1, "A": 510}
    b.add("D", 300, 50)

    assert b.step() == {"B": 1, "C": 1, "A": 400, "D": 110}
    assert b.step() == {"B": 1, "C": 1, "A": 1, "D": 190}


def test_long_prefill_threshold(bench: Any) -> None:
    """A long prompt comes in pieces, but not when it is alone."""
    limit = {"limit": [{"use": "long-prefill", "threshold": 512}]}
    b = bench(budget=4096, sections=limit)
    b.add("B", 4, 50)
    b.step()
    b.add("A", 2050, 50)
    assert [step["A"] for step in b.steps(6)] == [512, 512, 512, 512, 2, 1]

    alone = bench(budget=4096, sections=limit)
    alone.add("A", 2050, 50)
    assert alone.step() == {"A": 2050}


def test_token_budget(bench: Any) -> None:
    b = bench()
    for name in "ABCD":
        b.add(name, 1000, 50)
    assert b.step() == {"A": 1000, "B": 1000, "C": 48}
    assert b.step() == {"A": 1, "B": 1, "C": 952, "D": 1000}


def test_seats(bench: Any) -> None:
    """257 decodes: one waits, whatever budget is free."""
    b = bench()
    for i in range(257):
        b.add(f"r{i}", 4, 50)
    b.step()
    assert b.step() == {f"r{i}": 1 for i in range(256)}
    assert b.plan.total_num_scheduled_tokens / 2048 == 0.125
    assert b.scheduler.num_waiting == 1


def test_budget_and_seats(bench: Any) -> None:
    b = bench()
    for i in range(200):
        b.add(f"r{i}", 4, 50)
    b.step()
    b.add("P", 1800, 50)
    b.add("Q", 300, 50)
    granted = b.step()
    assert (granted["P"], granted["Q"]) == (1800, 48)
    assert b.plan.total_num_scheduled_tokens == 2048


def w5(bench: Any, **options: Any) -> Any:
    b = bench(usable=13, **options)
    b.add("A", 31, 40)
    for name in "BC":
        b.add(name, 30, 40)
    b.add("E", 8, 4)
    b.step()
    b.add("D", 60, 20)
    return b


def test_preemption_and_resumption(bench: Any) -> None:
    """D yields its 4 blocks when C needs one, returns with 48 tokens hit, yields again."""
    b = w5(bench)
    table = []
    for _ in range(7):
        b.schedule()
        granted = [b.plan.num_scheduled_tokens.get(name) for name in "ABCED"]
        row = (granted, b.plan.preempted_req_ids, b.free)
        b.update()
        table.append((*row, b.free))
    none = None
    assert table == [
        ([1, 1, 1, 1, 60], [], 2, 2),
        ([1, 1, 1, 1, 1], [], 1, 1),
        ([1, 1, 1, 1, none], ["D"], 3, 4),
        ([1, 1, 1, none, 14], [], 0, 0),
        ([1, 1, 1, none, 1], [], 0, 0),
        ([1, 1, 1, none, 1], [], 0, 0),
        ([1, 1, 1, none, none], ["D"], 4, 4),
    ]
    assert b.finished["E"].detail == "max_tokens"


def test_resumed_request_brings_its_whole_table(bench: Any) -> None:
    b = w5(bench)
    b.steps(3)
    b.schedule()
    cached = b.plan.scheduled_cached_reqs
    index = cached.req_ids.index("D")
    assert cached.resumed_req_ids == ["D"]
    assert cached.num_computed_tokens[index] == 48
    assert len(cached.new_block_ids[index]) == 4
    assert b.scheduler.requests["D"].num_recomputed_tokens == 13  # 48..60, not the 62nd


def test_watermark_keeps_d_out(bench: Any) -> None:
    b = w5(bench, sections={"gate": [{"use": "full-need"}, {"use": "watermark", "fraction": 0.1}]})
    assert [step.get("D") for step in b.steps(4)] == [60, 1, None, None]


@pytest.mark.parametrize(("budget", "chunks"), [(8192, [6000, 1]), (4200, [4000, 2000, 1])])
def test_decodes_beside_a_long_prompt(bench: Any, budget: int, chunks: list[int]) -> None:
    b = bench(budget=budget)
    for i in range(200):
        b.add(f"r{i}", 4, 50)
    b.step()
    b.add("P", 6000, 50)
    steps = b.steps(len(chunks))
    assert [step["P"] for step in steps] == chunks
    assert sum(steps[0].values()) == 200 + chunks[0]


def test_prefix_blocks(bench: Any) -> None:
    """R1 shares 10 tokens, of which 8 fill blocks."""
    b = bench(block_size=4, usable=10)
    r0 = b.tokens(15)
    b.add("R0", r0, 10)
    b.schedule()
    (new,) = b.plan.scheduled_new_reqs
    assert len(new.block_ids) == 4
    b.update()
    b.add("R1", [*r0[:10], *b.tokens(4)], 10)
    assert b.schedule() == {"R0": 1, "R1": 6}
    (new,) = b.plan.scheduled_new_reqs
    assert new.num_computed_tokens == 8
    assert len(new.block_ids) == 4  # two shared, two of its own
    assert b.free == 4


@pytest.mark.parametrize(("fraction", "admitted"), [(0.0, True), (0.1, False)])
def test_watermark(bench: Any, fraction: float, admitted: bool) -> None:
    gates = [{"use": "full-need"}, {"use": "watermark", "fraction": fraction}]
    b = bench(usable=20, sections={"gate": gates})
    b.add("A", 144, 30)
    b.steps(2)
    assert b.free == 10
    b.add("B", 143, 30)
    assert ("B" in b.step()) is admitted


def test_watermark_ignored_when_nothing_runs(bench: Any) -> None:
    gates = [{"use": "full-need"}, {"use": "watermark", "fraction": 0.9}]
    b = bench(usable=20, sections={"gate": gates})
    b.add("B", 143, 30)
    assert b.step() == {"B": 143}


def test_full_hit(bench: Any) -> None:
    """At least one token is computed; longer prompts use the whole shared part."""
    b = bench()
    prompt = b.tokens(64)
    for name, tokens, hit in (
        ("cold", prompt, 0),
        ("same", prompt, 48),
        ("longer", [*prompt, *b.tokens(16)], 64),
    ):
        b.add(name, tokens, 1)
        b.schedule()
        assert computed_at_start(b) == {name: hit}
        assert b.plan.num_scheduled_tokens == {name: len(tokens) - hit}
        b.update()


class HintGate(Gate):
    """Parks at submit, or skips, requests that hint at it; counts who is looked at."""

    name = "hinted"

    def setup(self) -> None:
        self.looked_at: list[str] = []
        self.is_open = False

    def pre_enqueue(self, request: Any) -> Any:
        return Wait("door") if request.hints.get("park") else ADMIT

    def pre_filter(self, request: Any, view: Any) -> Any:
        self.looked_at.append(request.request_id)
        if request.hints.get("skip") and not self.is_open:
            return Defer(until="door")
        return ADMIT


class HintPlugin:
    @hookimpl
    def batchwright_register_gate(self) -> list[type[Gate]]:
        return [HintGate]


@pytest.mark.parametrize("how", ["park", "skip"])
def test_own_place_after_parking(bench: Any, how: str) -> None:
    """R1 costs no scan while it is aside, and comes back before R4, not behind it."""
    b = bench(
        plugins=[HintPlugin()],
        sections={"gate": [{"use": "hinted"}, {"use": "full-need"}]},
        max_num_seqs=3,
    )
    (gate,) = (g for g in b.scheduler.components.gates if g.name == "hinted")
    b.add("R1", 8, 50, hints={how: True})
    b.add("R2", 8, 50)
    b.add("R3", 8, 2)
    assert b.step() == {"R2": 8, "R3": 8}
    b.add("R4", 8, 50)
    b.add("R5", 8, 50)
    gate.looked_at.clear()
    b.scheduler.pause()
    b.step()
    assert gate.looked_at == []
    assert "R3" in b.finished

    gate.is_open = True
    b.scheduler.signal("door")
    b.scheduler.resume()
    assert list(b.step()) == ["R2", "R1", "R4"]
    assert gate.looked_at == ["R1", "R4"]
