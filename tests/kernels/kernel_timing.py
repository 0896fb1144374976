"""Times of calls on a device, and the rate of a plain copy. Needs torch alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import torch

NUM_CALLS = 20


def seconds_a_call(call: Callable[[], Any], device: str) -> float:
    """Median time of a call, by the device's own clock where it has one."""
    for _ in range(3):
        call()
    return median(_times(call, device))


def _times(call: Callable[[], Any], device: str) -> list[float]:
    if device == "cpu":
        marks = [time.perf_counter()]
        for _ in range(NUM_CALLS):
            call()
            marks.append(time.perf_counter())
        return [after - before for before, after in pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(NUM_CALLS + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(events)]


def copy_rate(device: str) -> float:
    """Bytes a second that a large copy on the device reads and writes."""
    size = 1 << (24 if device == "cpu" else 30)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_a_call(lambda: target.copy_(source), device)
