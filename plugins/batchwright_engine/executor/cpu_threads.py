"""The number of threads of the CPU, and their waiting."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["apart", "physical_cores", "quiet_openmp"]

T = TypeVar("T")

_TOPOLOGY = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def physical_cores() -> int:
    """Cores that this process may use: hyper-threads counted once, quotas respected."""
    cores = len({_siblings(cpu) for cpu in _cpus()})
    return max(1, int(min(cores, _quota())))


def quiet_openmp() -> bool:
    """Let OpenMP threads soon sleep while they wait; say whether it still takes effect.

    Threads that spin between two operations take the cores from threads that have work
    to do; those that sleep at once have to be woken for every operation. GNU's OpenMP
    (torch from PyPI) looks a thousand times first, which takes some microseconds.
    OpenMP reads these variables once, when torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    return "torch" not in sys.modules


def apart(work: Callable[[], T]) -> T:
    """Do something on a thread that ends with it, and with it its OpenMP threads.

    GNU's OpenMP makes threads for each thread that computes, and keeps them. Are they more
    than the cores, all together, then none looks before it sleeps: a model that was loaded
    on another thread than computes it would be slower for what that one has left behind.

    Raises:
        BaseException: The exception of the work.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "batchwright-apart") as thread:
        return thread.submit(work).result()


def _cpus() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _siblings(cpu: int) -> str:
    """The hyper-threads of this one's core, as the kernel writes them."""
    try:
        return (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> float:
    """Return the quota of a container in cores; infinite if there is none."""
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return math.inf
