"""Part 1 of the worked cases, in simulation: a step takes a second, arrivals come between.

Each case is simulated twice: with the decision log, by which its steps are compared, and
without it, fast-forwarding, by which its requests are.
"""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.protocols import Arrival, Gate
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Wait
from batchwright_plugins.observer.decision_trail import follow

LOG = {"use": "decision-log", "path": "decisions.jsonl"}


def arrival(name: str, step: int, prompt: int | list[int], output: int) -> Arrival:
    """A request that arrives before a step; a prompt given by length is its own."""
    base = 1000 * (1 + sum(map(ord, name)))
    tokens = [base + n for n in range(prompt)] if isinstance(prompt, int) else prompt
    return Arrival(
        time=float(step),
        prompt_token_ids=tokens,
        num_output_tokens=10_000,
        max_tokens=output,
        request_id=name,
    )


@pytest.fixture
def steps(simulate: Any) -> Any:
    """Simulate arrivals; the scheduled tokens, preemptions and free blocks of each step."""

    def run(
        arrivals: list[Arrival],
        *,
        budget: int = 2048,
        block_size: int = 16,
        usable: int = 1000,
        seats: int = 256,
        until: int | None = None,
        plugins: list[object] | None = None,
        **sections: Any,
    ) -> list[tuple[dict[str, int], list[str], int]]:
        config = {
            "model": {"max_model_len": 8192},
            "scheduler": {"max_num_batched_tokens": budget, "max_num_seqs": min(seats, budget)},
            "kv": {"block_size": block_size, "num_blocks": usable + 1},
            **sections,
        }
        given = {"plugins": plugins or [], "until": until}
        ran = simulate(arrivals, {**config, "observer": [LOG]}, **given)
        forwarded = simulate(arrivals, config, **given)
        assert forwarded.read("requests.csv") == ran.read("requests.csv")
        lines = ran.read("decisions.jsonl").decode().splitlines()
        found, seen = [], -1
        for line, trail in zip(lines[1:], follow(lines), strict=True):
            if trail.is_step and trail.step != seen:
                seen = trail.step
                free = int(line.rpartition('"free":')[2].rstrip("}"))
                found.append((dict(trail.grants), list(trail.preempted), free))
        return found

    return run


def granted(found: list[tuple[dict[str, int], list[str], int]]) -> list[dict[str, int]]:
    return [grants for grants, _, _ in found]


def test_budget_chunking_and_prefix_hit(steps: Any) -> None:
    x = list(range(7000, 7010))
    arrivals = [
        arrival("X", 0, x, 1),
        arrival("A", 1, 3, 50),
        arrival("B", 1, 3, 50),
        arrival("C", 2, 20, 50),
        arrival("D", 2, [*x[:8], 1, 2, 3, 4], 50),
    ]
    found = granted(steps(arrivals, block_size=4, budget=16, until=5))
    assert found[2:5] == [
        {"A": 1, "B": 1, "C": 14},
        {"A": 1, "B": 1, "C": 6, "D": 4},
        {"A": 1, "B": 1, "C": 1, "D": 1},
    ]


def test_one_budget_for_all_kinds(steps: Any) -> None:
    arrivals = [
        arrival("B", 0, 1, 50),
        arrival("C", 0, 1, 50),
        arrival("A", 1, 910, 50),
        arrival("D", 2, 300, 50),
    ]
    found = granted(steps(arrivals, budget=512, until=4))
    assert found[1:4] == [
        {"B": 1, "C": 1, "A": 510},
        {"B": 1, "C": 1, "A": 400, "D": 110},
        {"B": 1, "C": 1, "A": 1, "D": 190},
    ]


def test_long_prefill_threshold(steps: Any) -> None:
    limit = [{"use": "long-prefill", "threshold": 512}]
    arrivals = [arrival("B", 0, 4, 50), arrival("A", 1, 2050, 50)]
    found = granted(steps(arrivals, budget=4096, until=7, limit=limit))
    assert [step.get("A") for step in found] == [None, 512, 512, 512, 512, 2, 1]
    alone = granted(steps([arrival("A", 0, 2050, 50)], budget=4096, until=2, limit=limit))
    assert alone[0] == {"A": 2050}


def test_two_caps(steps: Any) -> None:
    four = granted(steps([arrival(n, 0, 1000, 50) for n in "ABCD"], until=2))
    assert four == [{"A": 1000, "B": 1000, "C": 48}, {"A": 1, "B": 1, "C": 952, "D": 1000}]
    crowd = [arrival(f"r{n}", 0, 4, 50) for n in range(257)]
    assert granted(steps(crowd, until=2))[1] == {f"r{n}": 1 for n in range(256)}
    mixed = [arrival(f"r{n}", 0, 4, 50) for n in range(200)]
    mixed += [arrival("P", 1, 1800, 50), arrival("Q", 1, 300, 50)]
    step = granted(steps(mixed, until=2))[1]
    assert (step["P"], step["Q"], sum(step.values())) == (1800, 48, 2048)


def w5() -> list[Arrival]:
    early = [arrival("A", 0, 31, 40), arrival("B", 0, 30, 40), arrival("C", 0, 30, 40)]
    return [*early, arrival("E", 0, 8, 4), arrival("D", 1, 60, 20)]


def test_preemption_and_resumption(steps: Any) -> None:
    found = steps(w5(), usable=13, until=8)
    none = None
    assert [
        ([grants.get(name) for name in "ABCED"], preempted, free)
        for grants, preempted, free in found[1:8]
    ] == [
        ([1, 1, 1, 1, 60], [], 2),
        ([1, 1, 1, 1, 1], [], 1),
        ([1, 1, 1, 1, none], ["D"], 3),
        ([1, 1, 1, none, 14], [], 0),
        ([1, 1, 1, none, 1], [], 0),
        ([1, 1, 1, none, 1], [], 0),
        ([1, 1, 1, none, none], ["D"], 4),
    ]


def test_watermark_keeps_d_out(steps: Any) -> None:
    gates = [{"use": "full-need"}, {"use": "watermark", "fraction": 0.1}]
    found = granted(steps(w5(), usable=13, until=5, gate=gates))
    assert [step.get("D") for step in found[1:5]] == [60, 1, None, None]


@pytest.mark.parametrize(("budget", "chunks"), [(8192, [6000]), (4200, [4000, 2000])])
def test_decodes_beside_a_long_prompt(budget: int, chunks: list[int], steps: Any) -> None:
    arrivals = [arrival(f"r{n}", 0, 1, 50) for n in range(200)]
    found = granted(steps([*arrivals, arrival("P", 1, 6000, 50)], budget=budget, until=3))
    assert [step["P"] for step in found[1:3]][: len(chunks)] == chunks


def test_prefix_blocks(steps: Any) -> None:
    r0 = list(range(9000, 9015))
    arrivals = [arrival("R0", 0, r0, 50), arrival("R1", 1, [*r0[:10], 1, 2, 3, 4], 50)]
    found = steps(arrivals, block_size=4, usable=10, until=2)
    assert found[1][0] == {"R0": 1, "R1": 6}
    assert found[1][2] == 4


@pytest.mark.parametrize(("fraction", "enters"), [(0.0, True), (0.1, False)])
def test_watermark(fraction: float, enters: bool, steps: Any) -> None:
    gates = [{"use": "full-need"}, {"use": "watermark", "fraction": fraction}]
    arrivals = [arrival("A", 0, 144, 40), arrival("B", 2, 143, 40)]
    found = granted(steps(arrivals, usable=20, until=3, gate=gates))
    assert ("B" in found[2]) is enters


def test_full_hit(steps: Any) -> None:
    a = list(range(5000, 5064))
    longer = [*a, *range(1, 17)]
    arrivals = [arrival("A", 0, a, 1), arrival("B", 1, a, 1), arrival("C", 2, longer, 1)]
    assert granted(steps(arrivals)) == [{"A": 64}, {"B": 16}, {"C": 16}]


class Holds(Gate):
    """Parks R1 when it arrives, and lets it go after a while."""

    name = "holds"

    def pre_enqueue(self, request):
        if request.request_id != "R1":
            return ADMIT
        self.ctx.call_at(3.0)
        return Wait("later", "held")

    def on_timer(self, payload):
        self.ctx.signal("later")


def test_own_place_after_parking(steps: Any) -> None:
    arrivals = [arrival(f"R{n}", 0, 4, 5) for n in (1, 2, 3)]
    arrivals += [arrival("R4", 1, 4, 5)]
    gates = [{"use": "full-need"}, {"use": "holds"}]
    plugins = [make_plugin(gate=[Holds])]
    found = granted(steps(arrivals, seats=2, gate=gates, plugins=plugins))
    assert [sorted(step) for step in found[:5]] == [["R2", "R3"]] * 5
    assert found[5] == {"R1": 4, "R4": 4}
    assert list(found[5]) == ["R1", "R4"]  # its own place is before R4's
