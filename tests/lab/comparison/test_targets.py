"""Values of ``--target``, and requests that meet it."""

from __future__ import annotations

import pytest

from batchwright.exceptions import ConfigError
from batchwright_lab.comparison.targets import Targets, read_targets


def test_class_has_its_own_targets_and_those_of_all() -> None:
    targets = read_targets(["ttft=1.0", "tpot=0.05", "batch:ttft=30", "batch:e2e=600"])
    assert targets.of(None) == {"ttft": 1.0, "tpot": 0.05}
    assert targets.of("chat") == {"ttft": 1.0, "tpot": 0.05}
    assert targets.of("batch") == {"ttft": 30.0, "tpot": 0.05, "e2e": 600.0}
    assert (
        str(targets) == "all requests: TTFT ≤ 1 s, TPOT ≤ 0.05 s; batch: TTFT ≤ 30 s, E2E ≤ 600 s"
    )


def test_all_of_them_must_be_met() -> None:
    targets = read_targets(["ttft=1", "tpot=0.05"])
    assert targets.are_met(None, {"ttft": 1.0, "tpot": 0.05, "e2e": 99.0})
    assert not targets.are_met(None, {"ttft": 1.01, "tpot": 0.05, "e2e": 99.0})
    assert not targets.are_met(None, {"ttft": 1.0, "tpot": 0.06, "e2e": 99.0})


def test_without_a_second_token_there_is_no_tpot_to_miss() -> None:
    assert read_targets(["tpot=0.05"]).are_met(None, {"ttft": 1.0, "tpot": None, "e2e": 1.0})


def test_no_targets_are_false() -> None:
    assert not Targets()
    assert read_targets(["e2e=1"])


@pytest.mark.parametrize(
    "text", ["ttft", "ttft=", "ttft=fast", "ttft=0", "ttft=inf", "tbt=1", ":ttft=1"]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--target .*expected \[CLASS:\]ttft=SECONDS"):
        read_targets([text])


def test_target_said_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="--target a:ttft=2: is said twice"):
        read_targets(["a:ttft=1", "ttft=1", "a:ttft=2"])
