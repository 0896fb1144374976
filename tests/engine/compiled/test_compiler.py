"""The check that functions can be compiled, and its reasons."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numba

from batchwright_engine.compiled.compiler import problem

if TYPE_CHECKING:
    import pytest

find = problem.__wrapped__


def test_nothing_is_in_the_way() -> None:
    """Here numba is installed."""
    assert find() is None


def test_numba_that_is_not_there_or_broken_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its import raises."""
    monkeypatch.setitem(sys.modules, "numba", None)
    assert find() == ("numba cannot be imported: import of numba halted; None in sys.modules")


def test_an_old_numba_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code has callers besides attention backends, which check the version."""
    monkeypatch.setattr(numba, "version_info", numba.version_info._replace(short=(0, 60)))
    monkeypatch.setattr(numba, "__version__", "0.60.2")
    assert find() == "it needs numba >=0.61, and 0.60.2 is installed"


def test_a_compiler_that_is_switched_off_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions would then be run by Python, which knows none of their instructions."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert find() == "numba compiles nothing where NUMBA_DISABLE_JIT is set"


def test_a_system_that_cannot_yield_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait would keep cores from others there."""
    monkeypatch.delattr(os, "sched_yield")
    assert find() == "its threads need sched_yield, which this system has not"
