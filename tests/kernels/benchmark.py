"""The time of a layer's attention, beside the memory that it moves and torch's SDPA.

    python tests/kernels/benchmark.py                 # every backend that can, on CUDA
    python tests/kernels/benchmark.py --device cpu    # small, the backend torch alone

For each step: bytes moved (every key and value that is seen once, queries and answers),
the bandwidth that makes of the time of a call, as a share of what a device copy reaches
here, and the time of ``scaled_dot_product_attention`` on contiguous tensors of the same
size without a cache (decodes: all in one call; prefills: one call each). A call writes
the step's keys and values too. Times are medians of single calls.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import evolve, frozen
from kernel_timing import copy_rate, seconds_a_call
from torch.nn.functional import scaled_dot_product_attention

from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import Case, Shape, make_batch

BACKENDS = ("torch", "triton", "xformers", "torch-varlen")


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
    limits = assembly.scheduler().sizes
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


def measurements(
    device: str, names: tuple[str, ...], copy: float
) -> Iterator[dict[str, str | float]]:
    """Rows of the table, each as soon as it is measured."""
    refused: dict[str, str] = {}
    for work in works(is_small=device == "cpu"):
        beside = seconds_a_call(sdpa_call(work.case), device)
        for name in names:
            call = backend_call(name, work)
            if isinstance(call, str):
                refused[name] = call
                continue
            seconds = seconds_a_call(call, device)
            del call
            yield {
                "step": work.name,
                "backend": name,
                "bytes": work.bytes_moved,
                "seconds": seconds,
                "gb_per_second": work.bytes_moved / seconds / 1e9,
                "share_of_copy": work.bytes_moved / seconds / copy,
                "sdpa_seconds": beside,
            }
    for name, reason in refused.items():
        yield {"backend": name, "not_measured": reason}


def line(row: Mapping[str, Any]) -> str:
    """A row for the terminal."""
    if "not_measured" in row:
        return f"not measured: {row['backend']}: {row['not_measured']}"
    return (
        f"{row['step']:<28}{row['backend']:<14}{row['bytes'] / 1e6:>8,.1f}"
        f"{row['seconds'] * 1e3:>10.3f}{row['gb_per_second']:>8,.0f}"
        f"{row['share_of_copy']:>9.0%}{row['sdpa_seconds'] * 1e3:>10.3f}"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} finds no CUDA device here", file=sys.stderr)
        return 2
    copy = copy_rate(options.device)
    print(f"device copy: {copy / 1e9:,.0f} GB/s (read and written)")
    print(f"{'step':<28}{'backend':<14}{'MB':>8}{'ms':>10}{'GB/s':>8}{'of copy':>9}{'SDPA ms':>10}")
    rows = []
    for row in measurements(
        options.device, BACKENDS if options.device == "cuda" else BACKENDS[:1], copy
    ):
        print(line(row), flush=True)
        rows.append(row)
    if options.json is not None:
        numbers = {"copy_gb_per_second": copy / 1e9, "rows": rows}
        options.json.write_text(json.dumps(numbers), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
