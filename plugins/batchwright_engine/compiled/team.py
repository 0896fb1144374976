"""Threads that share work out among themselves."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numba import njit

from .atomics import add_at, call_work, load_at, store_at, swap_at, yield_core
from .compiling import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Team", "rows_of", "share_parts", "share_rows"]

# Places of words, so far apart that no two share a line of the CPU's caches.
_LINE = 16
_CLAIM, _DONE, _AWAKE, _FUNCTION, _ARGUMENTS, _TOTAL = (i * _LINE for i in range(6))
_NUM_WORDS = 6 * _LINE

_JOB = 1 << 32
_LEAST_NUMBERS = 1 << 12  # of a part of rows; they take about as long as starting one
_PATIENCE = 300  # looks at the claim, some tenths of a microsecond each, before a thread sleeps


@compiled
def _help(words: Any) -> int:
    """Do parts of the current job while there are any; gives how many were done."""
    count = 0
    while True:
        claim = load_at(words, _CLAIM)
        left = claim % _JOB
        if left == 0:
            return count
        if swap_at(words, _CLAIM, claim, claim - 1):  # the job cannot end before this part has
            part = words[_TOTAL] - left
            call_work(words[_FUNCTION], words[_ARGUMENTS], part)
            add_at(words, _DONE, 1)
            count += 1


@compiled
def _rouse(words: Any, wanted: int) -> int:
    """Count so many helpers as awake; gives how many of them were not."""
    # Meanwhile some may fall asleep; none wakes but here.
    missing: int = max(0, wanted - load_at(words, _AWAKE))
    add_at(words, _AWAKE, missing)
    return missing


@compiled
def _lead(words: Any, function: int, arguments: Any, total: int) -> None:
    """Do a job, with the threads that are awake."""
    words[_FUNCTION] = function
    words[_ARGUMENTS] = arguments.ctypes.data
    words[_TOTAL] = total
    store_at(words, _DONE, 0)
    store_at(words, _CLAIM, load_at(words, _CLAIM) + _JOB + total)
    _help(words)
    while load_at(words, _DONE) < total:
        yield_core()


@compiled
def _serve(words: Any, patience: int) -> None:
    """Help with one job after the other, until none comes for a while."""
    looks = 0
    while looks < patience:
        if _help(words) > 0:
            looks = 0
        looks += 1
        yield_core()
    add_at(words, _AWAKE, -1)


@compiled
def _alone(function: int, arguments: Any, total: int) -> None:
    for part in range(total):
        call_work(function, arguments.ctypes.data, part)


class Team:
    """A thread that has a job, and others that help it with parts of it.

    A job is divided into more parts than there are threads, and each thread takes the
    next one when it is done with another: one that is kept from running, or still has to
    wake, is not waited for, the others do its share. An idle thread polls for work
    for tens of microseconds, yielding the core between polls, and then
    sleeps. OpenMP's either sleep at once, and take longer to wake than most operations
    of a small model do, or keep the core from others.

    Args:
        num_helpers: Threads beside the one that has the job.
    """

    def __init__(self, num_helpers: int) -> None:
        self._words: NDArray[np.int64] = np.zeros(_NUM_WORDS, np.int64)
        self._lock = threading.Lock()
        self._bell = threading.Semaphore(0)
        self._num_helpers = num_helpers
        self._helpers = [
            threading.Thread(target=self._help, name=f"helper-{i}", daemon=True)
            for i in range(num_helpers)
        ]
        for helper in self._helpers:
            helper.start()

    def _help(self) -> None:
        while self._bell.acquire() and self._num_helpers:
            _serve(self._words, _PATIENCE)

    def close(self) -> None:
        """End the helpers; whatever comes is done alone."""
        with self._lock:
            self._num_helpers = 0
            self._bell.release(len(self._helpers) or 1)
        for helper in self._helpers:
            helper.join()
        self._helpers.clear()

    def run(self, work: Any, arguments: NDArray[np.int64], total: int) -> None:
        """Do all parts of a job; alone where another thread has the others.

        Args:
            work: Result of ``compiled_work``.
            arguments: Its arguments.
            total: Number of parts.
        """
        address = work.address
        if total == 1 or not self._num_helpers or not self._lock.acquire(blocking=False):
            _alone(address, arguments, total)
            return
        try:
            wanted = min(self._num_helpers, total - 1)
            if self._words[_AWAKE] < wanted:
                for _ in range(_rouse(self._words, wanted)):
                    self._bell.release()
            _lead(self._words, address, arguments, total)
        finally:
            self._lock.release()


def share_parts(work: Any, arguments: Sequence[int], num_parts: int) -> None:
    """Do all parts of a job with as many threads as torch computes with.

    Args:
        work: Result of ``compiled_work``.
        arguments: Its arguments, numbers and addresses.
        num_parts: Number of parts.
    """
    _team(torch.get_num_threads()).run(work, np.array(arguments, np.int64), num_parts)


def share_rows(work: Any, num_rows: int, row_work: int, *arguments: int) -> None:
    """Do a job that is the same for every row.

    Args:
        work: Result of ``compiled_work``; it asks ``rows_of`` for its rows.
        num_rows: Rows.
        row_work: Numbers that are computed for one row.
        arguments: Those behind what ``rows_of`` reads; the third and following ones.
    """
    if num_rows:
        size = max(1, _LEAST_NUMBERS // row_work)
        share_parts(work, (num_rows, size, *arguments), -(-num_rows // size))


@njit(inline="always")
def rows_of(arguments: Any, part: Any) -> Any:
    """First row of a part of ``share_rows``, and the one behind its last."""
    return part * arguments[1], min((part + 1) * arguments[1], arguments[0])


@cache
def _team(num_threads: int) -> Team:
    return Team(num_threads - 1)
