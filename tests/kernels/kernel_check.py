"""Compare paged attention kernels with dense attention in float64.

    python tests/kernels/kernel_check.py --kernels triton --device cuda

Needs torch, and Triton or numpy; nothing else. Decodes, prompts, chunks of them and mixtures,
with what models ask for. Whatever lies in an unused slot is NaN. On a CPU the sizes are small,
and Triton's kernels are interpreted, for which Triton needs numpy.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from plain import TOLERANCE, Call, Copy, Spec, dense_attention, kernels, make_batch

Shapes = Sequence[tuple[int, int]]
"""Tokens of each request before the step, and in it."""


@dataclass(frozen=True)
class Case:
    """A model and the requests of one step.

    Args:
        name: Short, for the result.
        shapes: Requests.
        group: Query heads that share a key head.
        splits: Parts that keys are computed in; None: as many as the kernels choose.
    """

    name: str
    shapes: Shapes
    num_kv_heads: int = 2
    group: int = 4
    head_size: int = 128
    block_size: int = 16
    window: int | None = None
    dtype: str = "bfloat16"
    softcap: float | None = None
    sinks: bool = False
    splits: int | None = None

    def spec(self, device: str) -> Spec:
        """Attention that kernels are made for: two layers, the second with the window."""
        return Spec(
            num_layers=2,
            num_query_heads=self.num_kv_heads * self.group,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            dtype=self.dtype,
            device=device,
            block_size=self.block_size,
            sliding_windows=(None, self.window),
            softcap=self.softcap is not None,
            sinks=self.sinks,
        )


def full_cases() -> list[Case]:
    """Cases for a GPU: few models, since each compiles kernels of its own."""
    decodes = [(2047, 1), (1, 1), (517, 1), (15, 1), (16, 1), (900, 1)]
    prompts = [(0, 300), (0, 16), (0, 1), (0, 127)]
    chunks = [(700, 64), (33, 100), (5, 2)]
    return [
        Case("decodes", decodes),
        Case("decodes in parts", decodes, splits=3),
        Case("one decode at 16,384", [(16_383, 1)]),
        Case("prompts", prompts),
        Case("chunks", chunks),
        Case("mixture", [*chunks, *decodes, *prompts]),
        Case("sliding window", [*decodes, *chunks], group=3, head_size=64, window=128),
        Case("soft cap", [*decodes, *chunks], group=1, softcap=5.0, dtype="float32"),
        Case("sinks", [*decodes, *chunks], group=8, head_size=80, sinks=True, dtype="float16"),
        Case("large heads", [*decodes, *chunks], group=2, head_size=256, block_size=256),
    ]


def small_cases() -> list[Case]:
    """Cases for a CPU; the interpreter takes bfloat16 for integers."""
    decodes = [(20, 1), (1, 1), (16, 1)]
    chunks = [(9, 4), (0, 18)]
    sizes: dict[str, Any] = {"head_size": 64, "dtype": "float16", "group": 2}
    return [
        Case("decodes", decodes, **sizes),
        Case("decodes in parts", decodes, splits=3, **sizes),
        Case("prompts and chunks", chunks, **sizes),
        Case("sliding window", [*decodes, *chunks], window=5, **sizes),
        Case("soft cap", [*decodes, *chunks], softcap=5.0, **{**sizes, "dtype": "float32"}),
        Case("sinks", [*decodes, *chunks], sinks=True, **{**sizes, "group": 3}),
    ]


def make(name: str, case: Case, device: str, num_blocks: int) -> Any:
    """Kernels for a case, with a cache of NaN wherever nothing is written."""
    spec = case.spec(device)
    if name == "triton":
        made = kernels("triton_attention").TritonPagedAttention(spec, num_blocks, case.splits)
        for layer in (*made._cache.keys, *made._cache.values):
            layer.fill_(math.nan)
        return made
    made = kernels("paged_attention").PagedAttention(spec, num_blocks, None, 1 << 20)
    for layer in made._cache.layers:
        layer[:, : num_blocks * case.block_size] = math.nan  # the blank block lies behind
    return made


class Requests:
    """Requests of a case: their blocks, and all of their keys and values.

    Args:
        case: Model and step.
        device: ``cpu`` or ``cuda``.
    """

    def __init__(self, case: Case, device: str) -> None:
        self.case, self.device = case, device
        self._random = torch.Generator().manual_seed(len(case.name))
        lengths = [computed + new for computed, new in case.shapes]
        needs = [-(-length // case.block_size) for length in lengths]
        order = (torch.randperm(sum(needs), generator=self._random) + 1).tolist()
        self.tables = [[order.pop() for _ in range(need)] for need in needs]
        self.num_blocks = sum(needs) + 1
        self.keys = [self.draw(length, case.num_kv_heads) for length in lengths]
        self.values = [self.draw(length, case.num_kv_heads) for length in lengths]
        heads = case.num_kv_heads * case.group
        self.options: dict[str, Any] = {
            "scale": case.head_size**-0.5,
            "softcap": case.softcap,
            "sinks": self.draw(heads, 1)[:, 0, 0] if case.sinks else None,
        }

    def draw(self, num_tokens: int, num_heads: int) -> torch.Tensor:
        """Random tokens, ``[num_tokens, num_heads, head_size]``."""
        shape = (num_tokens, num_heads, self.case.head_size)
        drawn = torch.randn(shape, generator=self._random)
        return drawn.to(getattr(torch, self.case.dtype)).to(self.device)

    def step(self, attention: Any, chosen: Sequence[int], shapes: Shapes) -> list[list[Any]]:
        """Compute a step of some requests.

        Returns:
            By layer, for each request its queries and the answers to them.
        """
        case = self.case
        tables = [self.tables[index] for index in chosen]
        attention.begin_step(make_batch(tables, shapes, case.block_size, self.device))
        spans = [slice(computed, computed + new) for computed, new in shapes]
        key, value = (
            torch.cat([tokens[index][span] for index, span in zip(chosen, spans, strict=True)])
            for tokens in (self.keys, self.values)
        )
        counts = [new for _, new in shapes]
        answers = []
        for layer in range(2):
            query = self.draw(len(key), case.num_kv_heads * case.group)
            output = attention.forward(Call(layer, query, key, value, **self.options))
            answers.append(list(zip(query.split(counts), output.split(counts), strict=True)))
        return answers


def largest_error(name: str, case: Case, device: str) -> float:
    """Compute what came before the step, then the step; compare it with the reference.

    Returns:
        The largest difference over all layers and requests; infinity if an answer is NaN.
    """
    requests = Requests(case, device)
    attention = make(name, case, device, requests.num_blocks)
    chosen = [index for index, (computed, _) in enumerate(case.shapes) if computed]
    before = [(0, case.shapes[index][0]) for index in chosen]
    if chosen:
        requests.step(attention, chosen, before)
    everything = range(len(case.shapes))
    worst = 0.0
    for layer, answers in enumerate(requests.step(attention, everything, case.shapes)):
        window = case.window if layer else None
        for index, (query, actual) in enumerate(answers):
            expected = dense_attention(
                query,
                requests.keys[index],
                requests.values[index],
                window=window,
                **requests.options,
            )
            error = (expected - actual.double()).abs().max().item()
            worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def copies_are_equal(name: str, device: str) -> bool:
    """Compare a decode behind a copied block with one behind the original."""
    case = Case("copied blocks", [(16, 1), (16, 1)], head_size=64, dtype="float16")
    requests = Requests(case, device)
    attention = make(name, case, device, 6)
    requests.tables = [[1, 4], [1, 5]]
    requests.step(attention, [0], [(0, 16)])
    attention.copy_blocks([Copy(1, 2)])
    requests.tables = [[2, 4], [1, 5]]
    attention.begin_step(make_batch(requests.tables, case.shapes, 16, device))
    query, new = (requests.draw(1, heads).expand(2, -1, -1).contiguous() for heads in (8, 2))
    outputs = [attention.forward(Call(layer, query, new, new, scale=0.1)) for layer in range(2)]
    return all(
        torch.equal(copied, original) and bool(copied.isfinite().all())
        for copied, original in outputs
    )


def results(name: str, device: str) -> Iterator[dict[str, Any]]:
    """Check case after case."""
    for case in small_cases() if device == "cpu" else full_cases():
        if name == "torch" and case.splits is not None:
            continue  # they have no parts
        start = time.perf_counter()
        error, bound = largest_error(name, case, device), TOLERANCE[case.dtype]
        yield {
            "check": case.name,
            "passed": error <= bound,
            "largest_error": error if math.isfinite(error) else None,
            "bound": bound,
            "seconds": round(time.perf_counter() - start, 2),
        }
    yield {"check": "copied blocks", "passed": copies_are_equal(name, device)}


def line(result: dict[str, Any]) -> str:
    """A result for the terminal."""
    word = "ok" if result["passed"] else "WRONG"
    if "bound" not in result:
        return f"  {result['check']:<22}{word}"
    error = result["largest_error"]
    off = "NaN" if error is None else f"{error:.1e}"
    return (
        f"  {result['check']:<22}{word:<6} off by {off}, at most {result['bound']:.0e} "
        f"({result['seconds']:.1f} s)"
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", choices=["triton", "torch"], required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args(arguments)
    os.environ["TRITON_INTERPRET"] = "1" if options.device == "cpu" else "0"
    done = []
    for result in results(options.kernels, options.device):
        print(line(result), flush=True)
        done.append(result)
    if options.json is not None:
        options.json.write_text(json.dumps({"checks": done}), encoding="utf-8")
    wrong = [result["check"] for result in done if not result["passed"]]
    if wrong:
        print(f"wrong with the kernels {options.kernels}: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
