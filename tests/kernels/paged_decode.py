"""Measure paged decode in GB/s beside a plain copy on the same device.

    python tests/kernels/paged_decode.py --device cuda

Needs torch, and Triton or numpy; nothing else. Heads are those of Llama 3 8B in bfloat16:
32 query heads, 8 key heads of 128 elements, blocks of 16 tokens in random order. A step has as
many layers as it takes to read about a gibibyte, so that no cache of the device holds it. Its
rate is the keys and values that it reads, divided by the median time of a step. The copy moves
a gibibyte, read and written. On a CPU the sizes are small.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from kernel_timing import copy_rate, seconds_a_call
from plain import Batch, Call, Spec, kernels

MOST_LAYERS = 32


@dataclass(frozen=True)
class Load:
    """Decodes to be measured.

    Args:
        batch: Requests.
        context: Tokens of each, the new one included.
        unit: Bytes that a step is to read.
    """

    batch: int
    context: int
    unit: int
    num_kv_heads: int = 8
    group: int = 4
    head_size: int = 128
    block_size: int = 16

    @property
    def layer_bytes(self) -> int:
        """Keys and values that a layer reads, in bfloat16."""
        return self.batch * self.context * 2 * self.num_kv_heads * self.head_size * 2

    @property
    def num_layers(self) -> int:
        """Layers of a step."""
        return max(1, min(MOST_LAYERS, round(self.unit / self.layer_bytes)))

    @property
    def kv_bytes(self) -> int:
        """Keys and values that a step reads."""
        return self.num_layers * self.layer_bytes

    def spec(self, device: str) -> Spec:
        return Spec(
            num_layers=self.num_layers,
            num_query_heads=self.num_kv_heads * self.group,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            dtype="bfloat16",
            device=device,
            block_size=self.block_size,
            sliding_windows=(None,) * self.num_layers,
        )


def loads(device: str) -> list[Load]:
    """Batches and contexts, from one long request to many short ones."""
    if device == "cpu":
        return [Load(1, 1024, 1 << 24), Load(8, 256, 1 << 24)]
    sizes = [(1, 1024), (1, 32_768), (8, 8192), (32, 4096), (64, 2048), (256, 1024)]
    return [Load(batch, context, 1 << 30) for batch, context in sizes]


def decode_batch(load: Load, device: str) -> tuple[Batch, int]:
    """The batch of a step, and the number of blocks that it needs."""
    width = -(-load.context // load.block_size)
    order = torch.randperm(load.batch * width, generator=torch.Generator().manual_seed(0)) + 1
    tables = order.view(load.batch, width)
    last = load.context - 1
    slots = tables[:, last // load.block_size] * load.block_size + last % load.block_size
    batch = Batch(
        query_start_loc=torch.arange(load.batch + 1, dtype=torch.int32, device=device),
        query_lens=[1] * load.batch,
        seq_lens=[load.context] * load.batch,
        block_tables=tables.int().to(device),
        slot_mapping=slots.to(device),
    )
    return batch, load.batch * width + 1


def make(name: str, spec: Spec, num_blocks: int) -> Any:
    """Kernels with a cache of random numbers."""
    if name == "triton":
        made = kernels("triton_attention").TritonPagedAttention(spec, num_blocks, None)
        layers = (*made._cache.keys, *made._cache.values)
    else:
        made = kernels("paged_attention").PagedAttention(spec, num_blocks, None, 0)
        layers = tuple(made._cache.layers)
    for layer in layers:
        layer.normal_()
    return made


def measure(name: str, load: Load, device: str) -> dict[str, float]:
    """Time a step: the attention of all its layers, and what is prepared once for them."""
    spec = load.spec(device)
    batch, num_blocks = decode_batch(load, device)
    attention = make(name, spec, num_blocks)
    options: dict[str, Any] = {"dtype": torch.bfloat16, "device": device}
    query = torch.randn(load.batch, spec.num_query_heads, spec.head_size, **options)
    key = torch.randn(load.batch, spec.num_kv_heads, spec.head_size, **options)
    calls = [Call(layer, query, key, key, scale=0.1) for layer in range(load.num_layers)]
    prepare = seconds_a_call(lambda: attention.begin_step(batch), device)
    seconds = seconds_a_call(lambda: [attention.forward(call) for call in calls], device)
    return {"seconds": seconds, "prepare_seconds": prepare}


def absent(name: str, device: str) -> str | None:
    """Return the reason why some kernels cannot be measured here; None if they can."""
    module = {"triton": "triton", "torch": "numpy"}[name]
    if find_spec(module) is None:
        return f"{module} is not installed"
    if name == "triton" and device == "cpu":
        return "Triton measures on CUDA alone"
    if name == "triton" and torch.cuda.get_device_capability() < (8, 0):
        return "our Triton kernels need CUDA compute capability 8.0"
    return None


def lack_of_memory(load: Load, device: str) -> str | None:
    """Return the reason why a load does not fit here; None if it does."""
    if device == "cpu":
        return None
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    needed = 2 * load.kv_bytes  # the torch kernels gather what they read
    return f"{needed >> 20} MiB are needed, {free >> 20} MiB free" if free < needed else None


def results(device: str, copy: float) -> Iterator[dict[str, Any]]:
    """Measure load after load."""
    names = []
    for name in ("triton", "torch"):
        reason = absent(name, device)
        if reason is None:
            names.append(name)
        else:
            yield {"kernels": name, "not_measured": reason}
    for load in loads(device):
        for name in names:
            sizes = {"kernels": name, "batch": load.batch, "context": load.context}
            reason = lack_of_memory(load, device)
            if reason is not None:
                yield {**sizes, "not_measured": reason}
                continue
            times = measure(name, load, device)
            rate = load.kv_bytes / times["seconds"]
            yield {
                **sizes,
                "layers": load.num_layers,
                "kv_bytes": load.kv_bytes,
                **times,
                "gb_per_second": rate / 1e9,
                "share_of_copy": rate / copy,
            }


def line(result: dict[str, Any]) -> str:
    """A result for the terminal."""
    sizes = f"  {result['kernels']:<8}"
    if "batch" in result:
        sizes += f"{result['batch']:>4} at {result['context']:>6,}"
    if "not_measured" in result:
        return f"{sizes}  not measured: {result['not_measured']}"
    return (
        f"{sizes}{result['layers']:>4} layers{result['kv_bytes'] / 1e6:>9,.0f} MB"
        f"{result['seconds'] * 1e3:>10.3f} ms{result['gb_per_second']:>8,.1f} GB/s"
        f"{result['share_of_copy']:>6.0%} of a copy,"
        f" prepared in {result['prepare_seconds'] * 1e3:.3f} ms"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args(arguments)
    copy = copy_rate(options.device)
    print(f"  device copy: {copy / 1e9:,.1f} GB/s (read and written)", flush=True)
    rows = []
    for result in results(options.device, copy):
        print(line(result), flush=True)
        rows.append(result)
    if options.json is not None:
        numbers = {"copy_gb_per_second": copy / 1e9, "rows": rows}
        options.json.write_text(json.dumps(numbers), encoding="utf-8")
    if any("gb_per_second" in row for row in rows):
        return 0
    print("no kernels were measured")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
