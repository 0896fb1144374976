"""The benchmark runs; what it measures is looked at by people, not by a test."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import plugin_cost
import scheduler_loads
from ours_side import Ours


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_loads, "STEPS", 20)
    monkeypatch.setattr(scheduler_loads, "WARM_UP", 4)


@pytest.mark.parametrize("num_running", [1, 16])
def test_steady_decodes_are_all_carried(num_running: int) -> None:
    """The fast path stays on, by the counter in ``stats``."""
    facts = scheduler_loads.steady(Ours, num_running).facts
    assert facts["running"] == num_running
    assert facts["carried"] >= 0.95


def test_the_mixed_load_is_carried_and_shares_its_prefix() -> None:
    facts = scheduler_loads.mixed(Ours).facts
    assert facts["carried"] >= 0.95
    assert facts["prefix_hits"] > 0.4


@pytest.mark.parametrize("hasher", ["sha256", "xxh3-128"])
def test_hashing_is_measured(hasher: str) -> None:
    assert scheduler_loads.hashing(Ours, hasher).both > 0


def test_waiting_requests_are_compact() -> None:
    """4 bytes a token and about 3 KiB besides, of which Python objects are most."""
    assert scheduler_loads.memory(Ours, num_waiting=3_000) < 1.5 * 2**30 / 100_000


@pytest.mark.parametrize(("name", "plugin"), plugin_cost.PLUGINS)
def test_a_plugin_leaves_the_fast_path_on(name: str, plugin: type | None) -> None:
    """All but a limit that is asked about decodes."""
    for load in (partial(scheduler_loads.steady, num_running=16), scheduler_loads.mixed):
        ((cost,),) = plugin_cost.measure(load, [plugin])
        carried = cost.facts["carried"]
        assert carried >= 0.95 if plugin is not plugin_cost.DecodeLimit else carried == 0
