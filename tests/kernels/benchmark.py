"""What a layer's attention takes, beside the memory that it moves and torch's SDPA.

    python tests/kernels/benchmark.py            # every backend that can, on CUDA
    python tests/kernels/benchmark.py --cpu      # small, the backend torch alone

For each step: bytes moved (every key and value that is seen once, queries and answers),
the bandwidth that makes of the time of a call, as a share of what a device copy reaches
here, and the time of ``scaled_dot_product_attention`` on contiguous tensors of the same
size without a cache (decodes: all in one call; prefills: one call each). A call writes
the step's keys and values too. Times are medians of single calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from attrs import evolve, frozen
from torch.nn.functional import scaled_dot_product_attention

from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import Case, Shape, make_batch

BACKENDS = ("torch", "triton", "xformers", "torch-varlen")
NUM_CALLS = 20


@frozen
class Work:
    """A step to be measured.

    Args:
        name: For people.
        case: The model's attention and the step.
    """

    name: str
    case: Case

    @property
    def bytes_moved(self) -> int:
        """Least that has to be read and written (bytes), the write of new keys included."""
        case, width = self.case, 4 if self.case.dtype == "float32" else 2
        heads = case.num_kv_heads * case.group_size
        granted = sum(shape.granted for shape in case.requests)
        seen = sum(shape.computed + shape.granted for shape in case.requests)
        elements = 2 * heads * granted + 2 * case.num_kv_heads * (seen + granted)
        return elements * case.head_size * width


def works(*, is_small: bool) -> list[Work]:
    """Decodes, prompts, a mixture: heads as in Llama 3 8B, or next to nothing."""
    model = Case(
        requests=[],
        num_kv_heads=8,
        group_size=4,
        head_size=128,
        block_size=16,
        dtype="bfloat16",
        device="cuda",
    )
    if is_small:
        model = evolve(model, num_kv_heads=2, head_size=16, dtype="float32", device="cpu")
    unit = 8 if is_small else 1024

    def decodes(number: int, context: int) -> Work:
        requests = [Shape(context * unit - 1, 1)] * number
        return Work(f"{number} decodes at {context * unit}", evolve(model, requests=requests))

    prompts = [Shape(0, 2 * unit)] * 2
    chunk = [Shape(4 * unit, unit // 2)]
    mixed = [*[Shape(2 * unit - 1, 1)] * 32, *chunk]
    return [
        decodes(1, 32),
        decodes(16, 4),
        decodes(64, 2),
        decodes(256, 1),
        Work(f"2 prompts of {2 * unit}", evolve(model, requests=prompts)),
        Work(f"{unit // 2} behind {4 * unit}", evolve(model, requests=chunk)),
        Work(f"that and 32 decodes at {2 * unit}", evolve(model, requests=mixed)),
    ]


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


def copy_bandwidth(device: str) -> float:
    """Bytes a second that a large copy on the device reads and writes."""
    size = 1 << (24 if device == "cpu" else 30)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_a_call(lambda: target.copy_(source), device)


def backend_call(name: str, work: Work) -> Callable[[], Any] | str:
    """One layer's call of a backend for this step, ready to be timed; or why not."""
    case = work.case
    backend = _backend(name)
    needs = [-(-(s.computed + s.granted) // case.block_size) for s in case.requests]
    reason = backend.unsupported(case.spec)
    if reason is not None:
        return str(reason)
    backend.allocate(case.spec, sum(needs) + 1)
    order = torch.randperm(sum(needs), generator=torch.Generator().manual_seed(0)) + 1
    tables = [part.tolist() for part in order.split(needs)]
    backend.begin_step(make_batch(tables, case.requests, case.block_size, case.device))
    query, key = _queries_and_keys(case)
    return lambda: backend.forward(LayerCall(0, query, key, key, scale=0.1))


def _backend(name: str) -> Any:
    assembly = Assembly(Config.from_dict({"attention": {"backend": name}}))
    limits = assembly.scheduler().limits
    return assembly.make(assembly.config.once("attention"), limits)


def _queries_and_keys(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    granted = sum(shape.granted for shape in case.requests)
    options: dict[str, Any] = {"dtype": getattr(torch, case.dtype), "device": case.device}
    heads = case.num_kv_heads * case.group_size
    return (
        torch.randn(granted, heads, case.head_size, **options),
        torch.randn(granted, case.num_kv_heads, case.head_size, **options),
    )


def sdpa_call(case: Case) -> Callable[[], Any]:
    """The same attention by torch alone, everything contiguous, no cache to look up."""
    calls = []
    decodes = [shape for shape in case.requests if shape.granted == 1]
    if decodes:
        longest = max(shape.computed + 1 for shape in decodes)
        calls.append(_sdpa(case, len(decodes), 1, longest))
    calls += [
        _sdpa(case, 1, shape.granted, shape.computed + shape.granted)
        for shape in case.requests
        if shape.granted > 1
    ]

    def run() -> None:
        for call in calls:
            call()

    return run


def _sdpa(case: Case, batch: int, queries: int, keys: int) -> Callable[[], Any]:
    options: dict[str, Any] = {"dtype": getattr(torch, case.dtype), "device": case.device}
    heads = case.num_kv_heads * case.group_size
    query = torch.randn(batch, heads, queries, case.head_size, **options)
    key = torch.randn(batch, case.num_kv_heads, keys, case.head_size, **options)
    mask = None
    if 1 < queries < keys:
        row = torch.arange(keys - queries, keys, device=case.device).unsqueeze(1)
        mask = torch.arange(keys, device=case.device) <= row
    return lambda: scaled_dot_product_attention(
        query, key, key, attn_mask=mask, is_causal=queries == keys > 1, enable_gqa=True
    )


def rows(device: str, names: tuple[str, ...]) -> Iterator[str]:
    """Lines of the table, each as soon as it is measured."""
    bandwidth = copy_bandwidth(device)
    yield f"device copy: {bandwidth / 1e9:,.0f} GB/s (read and written)"
    yield f"{'step':<28}{'backend':<14}{'MB':>8}{'ms':>10}{'GB/s':>8}{'of copy':>9}{'SDPA ms':>10}"
    refused: dict[str, str] = {}
    for work in works(is_small=device == "cpu"):
        beside = seconds_a_call(sdpa_call(work.case), device)
        for name in names:
            call = backend_call(name, work)
            if isinstance(call, str):
                refused[name] = call
                continue
            yield _row(work, name, seconds_a_call(call, device), bandwidth, beside)
            del call
    for name, reason in refused.items():
        yield f"not measured: {name}: {reason}"


def _row(work: Work, name: str, seconds: float, bandwidth: float, beside: float) -> str:
    size = work.bytes_moved
    return (
        f"{work.name:<28}{name:<14}{size / 1e6:>8,.1f}{seconds * 1e3:>10.3f}"
        f"{size / seconds / 1e9:>8,.0f}{size / seconds / bandwidth:>9.0%}{beside * 1e3:>10.3f}"
    )


def main(arguments: list[str]) -> int:
    device = "cpu" if "--cpu" in arguments else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} finds no CUDA device here", file=sys.stderr)
        return 2
    for line in rows(device, BACKENDS if device == "cuda" else BACKENDS[:1]):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
