"""Phases: every second of a step belongs to one."""

from __future__ import annotations

from batchwright.clock import VirtualClock
from batchwright_engine.phases import PHASES, Phases


def test_phases_add_up_laps() -> None:
    """Time before a step belongs to no phase; a phase may end several times in a step."""
    clock = VirtualClock(5.0)
    phases = Phases(clock)
    clock.advance(100.0)
    phases.start()
    clock.advance(1.0)
    phases.lap("scheduling")
    clock.advance(2.0)
    phases.lap("forward")
    clock.advance(0.5)
    phases.lap("bookkeeping")
    clock.advance(0.25)
    phases.lap("bookkeeping")
    clock.advance(7.0)
    phases.start()
    phases.lap("scheduling")
    expected = dict.fromkeys(PHASES, 0.0) | {"scheduling": 1.0, "forward": 2.0, "bookkeeping": 0.75}
    assert phases.seconds == expected
    assert phases.num_steps == 2


def test_phases_skip_what_is_nobodys() -> None:
    """No step begins by that."""
    clock = VirtualClock()
    phases = Phases(clock)
    clock.advance(3.0)
    phases.skip()
    clock.advance(1.0)
    phases.lap("forward")
    assert phases.seconds == dict.fromkeys(PHASES, 0.0) | {"forward": 1.0}
    assert phases.num_steps == 0
