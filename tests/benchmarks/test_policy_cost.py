"""The benchmark of policies runs; what it measures is looked at by people, not by a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import policy_cost
import scheduler_loads


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_loads, "STEPS", 30)
    monkeypatch.setattr(scheduler_loads, "WARM_UP", 4)
    monkeypatch.setattr(policy_cost, "NUM_RUNNING", 16)
    monkeypatch.setattr(policy_cost, "NUM_PARTS", 1)


@pytest.mark.parametrize("policy", policy_cost.policies())
def test_the_fast_path_stays_on(policy: str) -> None:
    """Decodes are carried under every policy, whether nothing changes or something does."""
    options = policy_cost.OPTIONS.get(policy, {})
    costs, side = policy_cost.steady(policy, options, 50)
    assert min(costs) > 0
    assert side.scheduler.view.num_running == 16
    assert side.carried_ratio() >= 0.95
    costs, side = policy_cost.busy(policy, options, 50)
    assert min(costs) > 0
    assert side.carried_ratio() >= 0.9
