"""Batchwright decides what vLLM's scheduler decided, step for step, in recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.golden import Golden, replayed, stored
from differential.workload import Workload
from differential.workloads import FAMILIES, make

MAX_BYTES = 1_000_000


@pytest.mark.parametrize("path", stored(), ids=lambda path: path.stem)
def test_golden_run_is_repeated_step_for_step(path: Path) -> None:
    """Grants and their order, hits, block ids, preemptions, ends, free blocks."""
    golden = Golden.read(path)
    for number, (expected, actual) in enumerate(zip(golden.steps, replayed(golden), strict=False)):
        assert expected == actual, f"{golden.name}, step {number}"
    assert len(golden.steps) == len(replayed(golden))


def test_golden_runs_cover_every_family_and_are_small() -> None:
    goldens = [Golden.read(path) for path in stored()]
    assert {golden.workload.family for golden in goldens} >= set(FAMILIES)
    assert len(goldens) >= 60
    assert sum(path.stat().st_size for path in stored()) < MAX_BYTES
    with_preemptions = [g for g in goldens if any("!" in step for step in g.steps)]
    assert 3 * len(with_preemptions) >= len(goldens)


@pytest.mark.parametrize("family", FAMILIES)
def test_workload_is_the_same_every_time_and_survives_its_text_form(family: str) -> None:
    """A family and a seed name one workload, on every machine."""
    workload = make(family, 7)
    assert make(family, 7) == workload
    assert Workload.loads(workload.dumps()) == workload
