"""Compiles the Triton kernels for GPUs that need not be there, as the backend calls them.

Run without TRITON_INTERPRET, in a process of its own. Prints a line a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from attrs import frozen
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import Case, Shape, make_batch
from batchwright_engine.attention import triton_attention
from batchwright_engine.attention.triton_attention import TritonPagedAttention

TARGETS = (80, 90)
_NAMES = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}

DECODE = [Shape(40, 1), Shape(3, 1)]
MIXED = [Shape(0, 70), Shape(40, 1)]
CASES: list[tuple[dict[str, Any], int]] = [
    ({"requests": MIXED, "group_size": 4, "head_size": 128, "dtype": "bfloat16"}, 1),
    ({"requests": MIXED, "group_size": 3, "head_size": 64, "windows": (9,), "softcap": 5.0}, 2),
    ({"requests": DECODE, "group_size": 8, "head_size": 80, "dtype": "float16", "sinks": True}, 8),
]
"""Models and steps, and how often their keys are split."""


@frozen
class Compiling:
    """Stands in for a kernel: compiles it for the arguments that it is called with."""

    kernel: Any
    say: Callable[[str], None]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._compile

    def _compile(self, *args: Any, num_warps: int, num_stages: int = 3, **constants: Any) -> None:
        names = self.kernel.arg_names
        given = {**dict(zip(names, args, strict=False)), **constants}
        assert list(given) == names, f"{self.kernel.__name__}: called with {list(given)}"
        fixed = {n: v for n, v in given.items() if n in constants or v is None or v is True}
        options = {"num_warps": num_warps, "num_stages": num_stages}
        source = ASTSource(
            self.kernel,
            signature={n: "constexpr" if n in fixed else _type(v) for n, v in given.items()},
            constexprs={(names.index(n),): v for n, v in fixed.items()},
            attrs={
                (names.index(n),): [["tt.divisibility", 16]]
                for n, v in given.items()
                if isinstance(v, torch.Tensor)
            },
        )
        for target in TARGETS:
            done = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
            tensor_cores = any(word in done.asm["ptx"] for word in ("mma.sync", "wgmma"))
            self.say(
                f"{self.kernel.__name__} sm_{target} {len(done.asm['cubin'])} bytes, "
                f"{done.metadata.shared} shared, tensor cores {tensor_cores}"
            )


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _NAMES.get(value.dtype) or {torch.int32: "*i32", torch.int64: "*i64"}[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def compile_case(fields: dict[str, Any], splits: int) -> None:
    """Call every kernel as one layer of a step does."""
    case = Case(**{"block_size": 16, **fields})
    attention = TritonPagedAttention(case.spec, 16, splits)
    tables = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    attention.begin_step(make_batch(tables, case.requests, case.block_size))
    tokens = sum(shape.granted for shape in case.requests)
    dtype = getattr(torch, case.dtype)
    query = torch.zeros(tokens, case.spec.num_query_heads, case.head_size, dtype=dtype)
    key = torch.zeros(tokens, case.num_kv_heads, case.head_size, dtype=dtype)
    sinks = query[0, :, 0] if case.sinks else None
    attention.forward(LayerCall(0, query, key, key, scale=0.1, softcap=case.softcap, sinks=sinks))


def main() -> None:
    for name in ("attend_tiles", "merge_splits"):
        kernel = getattr(triton_attention, name)
        setattr(triton_attention, name, Compiling(kernel, print))
    for fields, splits in CASES:
        compile_case(fields, splits)


if __name__ == "__main__":
    main()
