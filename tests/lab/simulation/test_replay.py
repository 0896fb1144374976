"""A replay repeats what was recorded, byte for byte, and decides what the other policy decides."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from batchwright import VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Arrival
from batchwright.request import RequestStatus
from batchwright.testing import Driver, fakes, make_request
from batchwright.testing.requests import prompt_tokens
from batchwright_lab.recording.recording import Recording
from batchwright_lab.replay.replayed_run import ReplayedRun

from .cases import ACTING, random_arrivals, random_config

LOG = {"use": "decision-log", "path": "decisions.jsonl"}
PLUGINS = (ACTING, fakes)
POLICIES = [found.name for found in PluginManager.discover().registrations("policy")]


def replay(log: Path, policy: str | None = None, *, to: str = "again", **given: Any) -> ReplayedRun:
    run = ReplayedRun(log, policy, log=log.with_name(f"{to}.jsonl"), plugins=PLUGINS, **given)
    run.run()
    return run


@pytest.mark.parametrize("seed", range(40))
def test_replay_under_the_same_policy_repeats_the_log_byte_for_byte(
    seed: int, simulate: Any
) -> None:
    """Preemption, hits, gates, marks, pauses, pipelines of two steps, blocks by id."""
    chance = random.Random(f"replay/{seed}")
    log = {**LOG, "block_ids": seed % 2 == 0}
    config = {**random_config(chance, gates=False), "observer": [log]}
    ran = simulate(list(random_arrivals(chance)), config, plugins=PLUGINS)
    run = replay(ran.folder / "decisions.jsonl")
    assert run.pace.difference is None
    assert (ran.folder / "again.jsonl").read_bytes() == ran.read("decisions.jsonl")


@pytest.mark.parametrize("seed", range(20))
def test_replay_under_another_policy_is_the_run_of_that_policy(seed: int, simulate: Any) -> None:
    """Estimates from the first difference on are those of a simulation."""
    chance = random.Random(f"other/{seed}")
    config = {**random_config(chance, gates=False), "observer": [LOG]}
    arrivals = list(random_arrivals(chance))
    policy = "priority" if config["scheduler"]["policy"] == "fcfs" else "fcfs"
    ran = simulate(arrivals, config, plugins=PLUGINS)
    other = {**config, "scheduler": {**config["scheduler"], "policy": policy}}
    expected = simulate(arrivals, other, plugins=PLUGINS)
    replay(ran.folder / "decisions.jsonl", policy)
    assert (ran.folder / "again.jsonl").read_bytes() == expected.read("decisions.jsonl")


@pytest.mark.parametrize("seed", range(20))
def test_the_recorded_policy_decides_up_to_the_step(seed: int, simulate: Any) -> None:
    """A handover changes nothing before its step, whatever either policy overrides."""
    chance = random.Random(f"handover/{seed}")
    config = {**random_config(chance, gates=False), "observer": [LOG]}
    policy = {"fcfs": "priority", "priority": "acting", "acting": "fcfs"}
    ran = simulate(list(random_arrivals(chance)), config, plugins=PLUGINS)
    log = ran.folder / "decisions.jsonl"
    step = len(Recording(log).times) // 3
    run = replay(log, policy[config["scheduler"]["policy"]], from_step=step)
    before = [json.loads(line) for line in ran.read("decisions.jsonl").splitlines()[1:]]
    after = [json.loads(line) for line in (ran.folder / "again.jsonl").read_text().splitlines()[1:]]
    for one, two in zip(before, after, strict=False):
        if one.get("step", 0) >= step:
            break
        assert one == two
    assert run.pace.difference is None or run.pace.difference.step >= step


@pytest.mark.parametrize("policy", POLICIES)
def test_any_policy_can_be_handed_over_from_and_to(policy: str, simulate: Any) -> None:
    """To itself: not a decision changes. To the next two: none before their step."""
    chance = random.Random(f"any/{policy}")
    config = {**random_config(chance, gates=False), "observer": [LOG]}
    config["scheduler"] = {**config["scheduler"], "policy": policy}
    ran = simulate(list(random_arrivals(chance)), config, plugins=PLUGINS)
    log, lines = ran.folder / "decisions.jsonl", ran.read("decisions.jsonl").splitlines()[1:]
    step = len(Recording(log).times) // 3
    itself = ReplayedRun(log, None, from_step=step, log=log.with_name("same"), plugins=PLUGINS)
    itself.config = itself._hand_over(itself.config, policy)
    itself.run()
    assert itself.pace.difference is None
    assert log.with_name("same").read_bytes().splitlines()[1:] == lines
    place = POLICIES.index(policy)
    for other in (POLICIES[place - 1], POLICIES[place - 2]):
        run = replay(log, other, to=other, from_step=step, trusts=True)
        difference = run.pace.difference
        assert difference is None or difference.step >= step
        assert [p.name for p in run.handovers[0].both] == [policy, other]


@pytest.mark.parametrize("seed", range(8))
def test_outcomes_in_the_log_are_those_of_the_run(seed: int, simulate: Any) -> None:
    """Times, hits, preemptions, recomputed tokens: as the table of requests has them."""
    chance = random.Random(f"outcomes/{seed}")
    config = {**random_config(chance, gates=False), "observer": [LOG]}
    ran = simulate(list(random_arrivals(chance)), config, plugins=PLUGINS)
    rows = [line.split(",") for line in ran.read("requests.csv").decode().splitlines()[1:]]
    expected = {
        row[0]: (*(float(x) if x else None for x in row[3:6]), int(row[9] or 0), int(row[10]))
        for row in rows
    }
    found = {
        r.request_id: (
            r.scheduled_time,
            r.first_token_time,
            r.finish_time,
            r.num_cached_tokens,
            r.num_recomputed_tokens,
        )
        for r in Recording(ran.folder / "decisions.jsonl").requests
    }
    assert found == expected


def test_a_conversation_hits_what_it_hit(simulate: Any) -> None:
    """A second turn finds the answer to the first, of which the log has only digests."""
    first = prompt_tokens("first", 40)
    answer = [7] * 24
    arrivals = [
        Arrival(time=0.0, prompt_token_ids=first, num_output_tokens=25, output_token_id=7),
        Arrival(
            time=100.0,
            prompt_token_ids=[*first, *answer, *prompt_tokens("second", 9)],
            num_output_tokens=3,
        ),
    ]
    ran = simulate(arrivals, {"observer": [LOG]}, max_tokens=64)
    log = ran.folder / "decisions.jsonl"
    assert Recording(log).requests[1].num_cached_tokens == 64
    replay(log)
    assert Recording(log.with_name("again.jsonl")).requests[1].num_cached_tokens == 64
    assert log.with_name("again.jsonl").read_bytes() == log.read_bytes()


def test_a_run_that_was_cut_ends_where_it_was_cut(simulate: Any) -> None:
    """The lengths of requests that had not ended are unknown."""
    arrivals = [
        Arrival(time=float(n), prompt_token_ids=prompt_tokens(str(n), 20), num_output_tokens=30)
        for n in range(8)
    ]
    config = {"observer": [LOG], "scheduler": {"max_num_seqs": 2}}
    ran = simulate(arrivals, config, until=20.0)
    log = ran.folder / "decisions.jsonl"
    assert Recording(log).num_unfinished == 8
    run = replay(log)
    assert run.pace.difference is None
    assert log.with_name("again.jsonl").read_bytes() == log.read_bytes()
    replay(log, "priority", overrides=["scheduler.max_num_seqs=3"], to="other")
    assert Recording(log.with_name("other.jsonl")).end_time == pytest.approx(20.0, abs=1.0)


def test_ends_that_come_from_outside_come_again(tmp_path: Path) -> None:
    """Aborts, stop tokens and stop strings, on a clock that no estimator made."""
    log = tmp_path / "decisions.jsonl"
    clock = VirtualClock()
    config = {"observer": [{**LOG, "path": str(log)}], "kv": {"num_blocks": 20}}
    scheduler = scheduler_from_config(config, clock=clock)
    driver = Driver(scheduler)
    driver.add(make_request("long", 40, 60), make_request("aborted", 40, 60))
    driver.add(make_request("cut", 10, 60))
    for step in range(30):
        clock.advance(0.01)
        driver.plan()
        clock.advance(0.2 + 0.001 * step)
        driver.update()
        if step == 5:
            driver.abort("aborted")
        if step == 8:
            scheduler.finish("cut", RequestStatus.FINISHED_STOPPED, "stop_string:END")
    while scheduler.requests:
        clock.advance(0.25)
        driver.turn()
    scheduler.close()
    recording = Recording(log)
    assert [request.end for request in recording.requests] == ["length", "abort", "stop"]
    assert not list(recording.missing())
    run = replay(log)
    assert run.pace.difference is None
    again = log.with_name("again.jsonl")
    assert again.read_bytes() == log.read_bytes()
