"""The benchmark runs; what it measures is looked at by people, not by a test."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import plugin_cost
import scheduler_cost
from ours_side import Ours


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_cost, "STEPS", 20)
    monkeypatch.setattr(scheduler_cost, "WARM_UP", 4)


@pytest.mark.parametrize("num_running", [1, 16])
def test_steady_decodes_are_all_carried(num_running: int) -> None:
    """The fast path stays on, by the counter in ``stats``."""
    _, _, side = scheduler_cost.steady(Ours, num_running)
    assert side.num_running == num_running
    assert side.carried_ratio() >= 0.95


def test_the_mixed_load_is_carried_and_shares_its_prefix() -> None:
    _, _, side = scheduler_cost.mixed(Ours)
    (stats,) = side.scheduler.components.observers
    summary = stats.summary()
    assert summary["carried_ratio"] >= 0.95
    assert summary["prefix_hit_ratio"] > 0.4


@pytest.mark.parametrize("hasher", ["sha256", "xxh3-128"])
def test_hashing_is_measured(hasher: str) -> None:
    assert scheduler_cost.hashing(Ours, hasher) > 0


def test_waiting_requests_are_compact() -> None:
    """4 bytes a token and about 3 KiB besides, of which Python objects are most."""
    assert scheduler_cost.memory(Ours, num_waiting=3_000) < 1.5 * 2**30 / 100_000


@pytest.mark.parametrize(("name", "plugin"), plugin_cost.PLUGINS)
def test_a_plugin_leaves_the_fast_path_on(name: str, plugin: type | None) -> None:
    """All but a limit that is asked about decodes."""
    for load in (partial(scheduler_cost.steady, num_running=16), scheduler_cost.mixed):
        ((_, carried),) = plugin_cost.measure(load, [plugin])
        assert carried >= 0.95 if plugin is not plugin_cost.DecodeLimit else carried == 0
