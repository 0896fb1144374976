"""The recorded runs notice mistakes: each of these changes some decision in them."""

from __future__ import annotations

import logging

import pytest

from differential.golden import Golden, replayed, stored
from differential.mutations import MUTATIONS


def caught_by(golden: Golden) -> bool:
    """Return True if a replay differs from its record, or fails."""
    try:
        return replayed(golden) != golden.steps
    except Exception:
        return True


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught_by_the_recorded_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the same runs pass without it, or else catching it would mean nothing."""
    caplog.set_level(logging.ERROR)
    MUTATIONS[name](monkeypatch)
    caught = next(filter(caught_by, map(Golden.read, stored())), None)
    assert caught is not None, f"no recorded run notices {name}"
    monkeypatch.undo()
    assert not caught_by(caught)
