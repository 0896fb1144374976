"""Prefixes: who shares them is served together."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from batchwright.protocols import Arrival

TRACE = Path(__file__).with_name("data") / "mooncake-conversation.jsonl"
BLOCK = 512


def mooncake() -> list[Arrival]:
    """The excerpt, its times spread over the 3 s that they are rounded to."""
    chance, arrivals = random.Random(0), []
    for line in TRACE.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        tokens: list[int] = []
        for block in record["hash_ids"]:
            tokens += [100_000 + block] * min(BLOCK, record["input_length"] - len(tokens))
        time = record["timestamp"] / 1000 + chance.uniform(0.0, 3.0)
        length = record["output_length"]
        arrivals.append(Arrival(time=time, prompt_token_ids=tokens, num_output_tokens=length))
    return sorted(arrivals, key=lambda arrival: arrival.time)


def test_lpm_raises_the_hit_rate_on_the_mooncake_trace(simulate: Any) -> None:
    """Measured: 8.0 and 12.0 % with 64,000 tokens of cache under overload."""

    def run(policy: str, **options: Any) -> Any:
        return simulate(
            mooncake(),
            policy=policy,
            max_num_seqs=64,
            kv={"num_blocks": 4000},
            sections={"policy": {policy: options}},
        )

    fcfs, lpm = run("fcfs"), run("lpm", max_wait=1e9)
    assert lpm.hit_rate > 1.2 * fcfs.hit_rate
    assert lpm.throughput > fcfs.throughput


def conversations(seed: int = 0) -> list[Arrival]:
    """Thirty groups; each turn repeats the last prompt and adds 100 tokens; new ones between."""
    chance, arrivals = random.Random(seed), []
    for group in range(30):
        time, length = chance.uniform(0.0, 20.0), 400
        for _ in range(6):
            tokens = [70_000 + group] * length
            arrivals.append(
                Arrival(time=time, prompt_token_ids=tokens, num_output_tokens=20, group=f"g{group}")
            )
            time, length = time + chance.uniform(2.0, 6.0), length + 100
    for number in range(150):
        tokens = [1000 + number, *[1] * 800]
        arrivals.append(
            Arrival(time=chance.uniform(0.0, 30.0), prompt_token_ids=tokens, num_output_tokens=40)
        )
    return sorted(arrivals, key=lambda arrival: arrival.time)


def test_session_raises_the_hit_rate_of_later_turns(simulate: Any) -> None:
    fcfs, session = (
        simulate(conversations(), policy=policy, max_num_seqs=8, kv={"num_blocks": 900})
        for policy in ("fcfs", "session")
    )
    assert session.hit_rate > 1.1 * fcfs.hit_rate


def test_window_trades_hits_for_age(simulate: Any) -> None:
    """The weight of hits raises the hit rate, that of age bounds the longest wait."""

    def run(**weights: float) -> Any:
        sections = {"policy": {"window": {"window": 64, **weights}}}
        return simulate(
            conversations(),
            policy="window",
            max_num_seqs=8,
            kv={"num_blocks": 900},
            sections=sections,
        )

    by_age, both, by_hit = run(hit=0.0), run(age=4.0, max_age=20.0), run(age=0.0)
    assert by_age.hit_rate < both.hit_rate <= by_hit.hit_rate
    assert both.ttfts()[-1] < by_hit.ttfts()[-1]
