"""Threads that share work."""

from __future__ import annotations

import os
import threading
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright_engine.compiled import team as team_module
from batchwright_engine.compiled.atomics import add_at, load_at, yield_core
from batchwright_engine.compiled.compiling import compiled_work
from batchwright_engine.compiled.floats import words_at
from batchwright_engine.compiled.team import Team, rows_of, share_parts, share_rows

PATIENCE = 20_000_000  # looks, some seconds


def count_part(arguments: Any, part: int) -> None:
    """Counts how often each part was done."""
    counts = words_at(arguments[0], arguments[1])
    add_at(counts, part, 1)


def count_rows(arguments: Any, part: int) -> None:
    """Counts how often each row was done."""
    begin, stop = rows_of(arguments, part)
    counts = words_at(arguments[2], arguments[0])
    for row in range(begin, stop):
        add_at(counts, row, 1)


def meet(arguments: Any, _part: int) -> None:
    """Waits until so many threads are here; counts those that gave up."""
    words = words_at(arguments[0], 3)
    add_at(words, 0, 1)
    for _ in range(PATIENCE):
        if load_at(words, 0) >= words[1]:
            return
        yield_core()
    add_at(words, 2, 1)


COUNT_PART, COUNT_ROWS, MEET = map(compiled_work, (count_part, count_rows, meet))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3), st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_every_part_is_done_once(num_helpers: int, totals: list[int]) -> None:
    """Job after job, with any number of helpers."""
    team = Team(num_helpers)
    for total in totals:
        counts = np.zeros(max(total, 1), np.int64)
        team.run(COUNT_PART, np.array([counts.ctypes.data, total]), total)
        assert (counts == (total > 0)).all()
    team.close()


@pytest.mark.parametrize("num_helpers", [1, 3])
def test_all_threads_help(num_helpers: int) -> None:
    """As many parts as threads, each of which ends when all have begun; again after a sleep."""
    team = Team(num_helpers)
    for pause in (0.0, 0.0, 0.05):
        Event().wait(pause)
        words = np.array([0, num_helpers + 1, 0])
        team.run(MEET, np.array([words.ctypes.data]), num_helpers + 1)
        assert words.tolist() == [num_helpers + 1, num_helpers + 1, 0]
    team.close()


def test_no_more_helpers_wake_than_there_is_work_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part is the leader's own."""
    team = Team(3)
    rung: list[int] = []
    monkeypatch.setattr(team._bell, "release", lambda: rung.append(1))
    for total, expected in ((1, 0), (2, 1), (3, 2), (50, 3), (50, 3)):
        counts = np.zeros(total, np.int64)
        team.run(COUNT_PART, np.array([counts.ctypes.data, total]), total)
        assert (counts == 1).all()
        assert len(rung) == expected
    monkeypatch.undo()
    team.close()


def test_another_leader_works_alone() -> None:
    """While the helpers work for another job."""
    team, words = Team(1), np.array([0, 3, 0])
    first = Thread(target=team.run, args=(MEET, np.array([words.ctypes.data]), 2))
    first.start()
    while words[0] < 2:
        Event().wait(0.001)
    counts = np.zeros(50, np.int64)
    team.run(COUNT_PART, np.array([counts.ctypes.data, 50]), 50)
    assert (counts == 1).all()
    assert first.is_alive()
    words[0] = 3
    first.join()
    assert words[2] == 0
    team.close()


@given(st.integers(0, 100), st.sampled_from([1, 700, 5000]))
def test_every_row_is_in_one_part(num_rows: int, row_work: int) -> None:
    """Small rows are put together, large ones are parts by themselves."""
    counts = np.zeros(max(num_rows, 1), np.int64)
    share_rows(COUNT_ROWS, num_rows, row_work, counts.ctypes.data)
    assert (counts == (num_rows > 0)).all()


def test_rows_are_divided_by_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """4096 numbers make a part worth while."""
    asked: list[tuple[tuple[int, ...], int]] = []
    monkeypatch.setattr(
        team_module, "share_parts", lambda _, arguments, total: asked.append((arguments, total))
    )
    share_rows(None, 10, 1000, 7, 8)
    share_rows(None, 10, 5000)
    share_rows(None, 0, 5000)
    assert asked == [((10, 4, 7, 8), 3), ((10, 1), 10)]


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_as_many_threads_compute_as_torch_has(num_threads: int) -> None:
    """Whatever it had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        words = np.array([0, num_threads, 0])
        share_parts(MEET, (words.ctypes.data,), num_threads)
    finally:
        torch.set_num_threads(before)
    assert words.tolist() == [num_threads, num_threads, 0]


def test_a_closed_team_has_no_threads() -> None:
    """And works on without them."""
    before = threading.active_count()
    team = Team(2)
    assert threading.active_count() == before + 2
    team.close()
    team.close()
    assert threading.active_count() == before
    counts = np.zeros(40, np.int64)
    team.run(COUNT_PART, np.array([counts.ctypes.data, 40]), 40)
    assert (counts == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_process_works_alone() -> None:
    """Its copy of the team has no threads; no thread is waited for."""
    team = Team(2)
    counts = np.zeros(40, np.int64)
    arguments = np.array([counts.ctypes.data, 40])
    team.run(COUNT_PART, arguments, 40)
    child = os.fork()
    if child == 0:
        team.run(COUNT_PART, arguments, 40)
        os._exit(0 if (counts == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    team.close()


def be_late(arguments: Any, part: int) -> None:
    """Meets another thread; the second part is done long after the first one."""
    words = words_at(arguments[0], 2)
    add_at(words, 0, 1)
    for _ in range(PATIENCE):
        if load_at(words, 0) >= 2:
            break
        yield_core()
    for _ in range(part * 20_000):
        yield_core()
    add_at(words, 1, 1)


def test_a_job_ends_when_its_last_part_is_done() -> None:
    """Not when it is taken, nor when as many parts are done as of the job before."""
    team, work = Team(1), compiled_work(be_late)
    for _ in range(10):
        words = np.zeros(2, np.int64)
        team.run(work, np.array([words.ctypes.data]), 2)
        assert words.tolist() == [2, 2]
    team.close()


def test_no_claim_is_like_one_of_another_job() -> None:
    """A thread that was kept from running since takes no part with what it saw then."""
    team, claims, counts = Team(1), set(), np.zeros(4, np.int64)
    for _ in range(3):
        team.run(COUNT_PART, np.array([counts.ctypes.data, 4]), 4)
        claims.add(int(team._words[team_module._CLAIM]))
    team.close()
    assert len(claims) == 3
    assert not [claim for claim in claims if claim % team_module._JOB]


def test_there_is_one_thread_less_than_torch_has() -> None:
    """The one that has the job is the other."""
    before = threading.active_count()
    team = team_module._team.__wrapped__(4)
    assert threading.active_count() == before + 3
    team.close()
