"""Arrivals that are made: rates, burstiness, lengths, prefixes, closed loops."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from batchwright import VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright_lab.workload.lengths import Lengths
from batchwright_lab.workload.prefixes import Prefixes

from .test_traces import Ended, make, shared


def seeded(name: str, seed: int, **options: Any) -> Any:
    config = Config.from_dict(
        {"scheduler": {"seed": seed}, "simulation": {"workload": name}, "workload": {name: options}}
    )
    assembly = Assembly(config, plugins=PluginManager.discover(), clock=VirtualClock())
    return assembly.make(config.once("workload"))


def gaps_of(workload: Any) -> list[float]:
    return [b.time - a.time for a, b in pairwise(workload.arrivals())]


@pytest.mark.parametrize(
    ("name", "options", "cv"),
    [
        ("poisson", {}, 1.0),
        ("gamma", {"cv": 2.5}, 2.5),
        ("gamma", {"cv": 0.3}, 0.3),
        ("constant", {}, 0.0),
    ],
)
def test_gaps_have_their_mean_and_cv(
    name: str, options: dict[str, Any], cv: float, tmp_path: Path
) -> None:
    workload = make(name, tmp_path, rate=4.0, num_requests=20_000, **options)
    gaps = gaps_of(workload)
    mean = statistics.fmean(gaps)
    assert mean == pytest.approx(0.25, rel=0.05)
    assert statistics.pstdev(gaps) / mean == pytest.approx(cv, rel=0.05, abs=1e-9)
    assert workload.rate == 4.0


def test_bursts_are_faster_and_keep_the_rate(tmp_path: Path) -> None:
    workload = make("bursty", tmp_path, rate=5.0, num_requests=40_000, factor=20.0)
    gaps = gaps_of(workload)
    assert statistics.fmean(gaps) == pytest.approx(0.2, rel=0.1)
    assert statistics.pstdev(gaps) / statistics.fmean(gaps) > 1.5


def test_streams_of_chance_are_separate(tmp_path: Path) -> None:
    """Another length distribution leaves the times as they are, and the other way round."""
    base = list(make("poisson", tmp_path, num_requests=50).arrivals())
    longer = list(make("poisson", tmp_path, num_requests=50, output={"mean": 700.0}).arrivals())
    faster = list(make("poisson", tmp_path, num_requests=50, rate=9.0).arrivals())
    assert [a.time for a in base] == [a.time for a in longer]
    assert [a.num_output_tokens for a in base] != [a.num_output_tokens for a in longer]
    assert [a.num_output_tokens for a in base] == [a.num_output_tokens for a in faster]
    other = list(seeded("poisson", 1, num_requests=50).arrivals())
    assert [a.time for a in base] != [a.time for a in other]


@pytest.mark.parametrize(
    ("lengths", "mean"),
    [
        (Lengths("constant", mean=40.0), 40.0),
        (Lengths("uniform", mean=40.0), 40.0),
        (Lengths("exponential", mean=40.0), 40.0),
        (Lengths("lognormal", mean=40.0, cv=0.5), 40.0),
        (Lengths("zipf", least=1, most=1000), 144.6),  # (most - least) / ln(most / least)
    ],
)
def test_lengths_have_their_mean(lengths: Lengths, mean: float) -> None:
    import random

    draws = lengths.draw(random.Random(3))
    found = [next(draws) for _ in range(20_000)]
    assert statistics.fmean(found) == pytest.approx(mean, rel=0.05)
    assert min(found) >= lengths.least
    assert max(found) <= lengths.most


def test_prefixes_form_a_tree(tmp_path: Path) -> None:
    prefixes = {"depth": 2, "branching": 2, "tokens": 16}
    workload = make("constant", tmp_path, num_requests=60, prefixes=prefixes)
    arrivals = list(workload.arrivals())
    common = {shared(a, b) for a in arrivals for b in arrivals if a is not b}
    assert common == {0, 16, 32}
    assert len({tuple(a.prompt_token_ids[:32]) for a in arrivals}) == 4


def test_skewed_prefixes_prefer_the_first() -> None:
    import random

    paths = Prefixes(depth=1, branching=3, skew=1.0).draw(random.Random(0))
    counts = [0, 0, 0]
    for _ in range(6000):
        ((token, _),) = next(paths)
        counts[token % 4 - 1] += 1
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.15)
    assert counts[0] / counts[2] == pytest.approx(3, rel=0.15)


def test_clients_take_turns(tmp_path: Path) -> None:
    workload = make("poisson", tmp_path, num_requests=5, num_clients=2)
    clients = [a.client for a in workload.arrivals()]
    assert clients == ["client-0", "client-1", "client-0", "client-1", "client-0"]


def test_client_sends_its_next_request_when_it_has_thought(tmp_path: Path) -> None:
    workload = make("clients", tmp_path, num_clients=3, num_requests=4, think_time=5.0)
    first = list(workload.arrivals())
    assert [a.client for a in first] == ["client-0", "client-1", "client-2"]
    (follower,) = workload.on_finish(first[1], Ended(first[1]))
    assert follower.client == "client-1"
    assert follower.time > Ended.finish_time
    assert shared(first[1], follower) == 0
    assert list(workload.on_finish(first[0], Ended(first[0]))) == []  # four have been made
    assert workload.rate is None


def test_agent_calls_again_with_all_that_came_before(tmp_path: Path) -> None:
    calls = {"distribution": "constant", "mean": 2.0}
    workload = make("agents", tmp_path, num_clients=1, num_requests=9, calls=calls, tool_time=0.0)
    (first,) = workload.arrivals()
    (second,) = workload.on_finish(first, Ended(first))
    assert second.time == Ended.finish_time
    known = [*first.prompt_token_ids, *[9] * first.num_output_tokens]
    assert list(second.prompt_token_ids[: len(known)]) == known
    assert len(second.prompt_token_ids) > len(known)
    assert second.group == first.group
    (third,) = workload.on_finish(second, Ended(second))  # its task is done: a new one
    assert third.group != first.group
    assert third.time > Ended.finish_time


def test_refused_client_goes_on_with_another_task(tmp_path: Path) -> None:
    calls = {"distribution": "constant", "mean": 2.0}
    for name, extra in (("clients", {}), ("agents", {"calls": calls})):
        workload = make(name, tmp_path, num_clients=1, num_requests=2, think_time=5.0, **extra)
        (first,) = workload.arrivals()
        (other,) = workload.on_refuse(first, 30.0)
        assert (other.client, first.group, other.group) == ("client-0", "task-1", "task-2")
        assert other.time > 30.0
        assert list(workload.on_refuse(other, 60.0)) == []  # two have been made
