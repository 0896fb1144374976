"""Compiles the Triton kernels for GPUs that need not be there, as the backend calls them.

Needs torch and Triton alone. Run without TRITON_INTERPRET, in a process of its own. Prints a
line a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from kernel_check import Case
from plain import Call, kernels, make_batch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

triton_attention = kernels("triton_attention")
TARGETS = (80, 90)
_NAMES = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}

DECODE = [(40, 1), (3, 1)]
MIXED = [(0, 70), (40, 1)]
CASES = [
    Case("mixture", MIXED, splits=1),
    Case("window and cap", MIXED, 2, 3, 64, window=9, dtype="float32", softcap=5.0, splits=2),
    Case("sinks", DECODE, 2, 8, 80, dtype="float16", sinks=True, splits=8),
]


@dataclass(frozen=True)
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


def compile_case(case: Case) -> None:
    """Call every kernel as the layers of a step do."""
    spec = case.spec("cpu")
    attention = triton_attention.TritonPagedAttention(spec, 16, case.splits)
    tables = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    attention.begin_step(make_batch(tables, case.shapes, case.block_size, "cpu"))
    tokens = sum(new for _, new in case.shapes)
    dtype = getattr(torch, case.dtype)
    query = torch.zeros(tokens, spec.num_query_heads, case.head_size, dtype=dtype)
    key = torch.zeros(tokens, case.num_kv_heads, case.head_size, dtype=dtype)
    sinks = query[0, :, 0] if case.sinks else None
    attention.forward(Call(1, query, key, key, scale=0.1, softcap=case.softcap, sinks=sinks))


def main() -> None:
    for name in ("attend_tiles", "merge_splits"):
        kernel = getattr(triton_attention, name)
        setattr(triton_attention, name, Compiling(kernel, print))
    for case in CASES:
        compile_case(case)


if __name__ == "__main__":
    main()
