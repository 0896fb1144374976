"""Attention backends that ship with Batchwright; none imports torch before it is used.

The kernels behind ``triton`` (``triton_attention``) and ``torch`` (``paged_attention``), with
all that they import, need torch, Triton and numpy alone. So ``tests/kernels/gpu_check.py``
can check them on a machine with a GPU on which Batchwright's dependencies are not installed.
"""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_attention() -> list[LazyComponent]:
    return [
        LazyComponent("numba", "batchwright_engine.attention.numba_paged:NumbaAttention"),
        LazyComponent("torch", "batchwright_engine.attention.torch_paged:TorchAttention"),
        LazyComponent(
            "torch-varlen", "batchwright_engine.attention.torch_varlen:TorchVarlenAttention"
        ),
        LazyComponent("triton", "batchwright_engine.attention.triton_paged:TritonAttention"),
        LazyComponent("xformers", "batchwright_engine.attention.xformers_paged:XformersAttention"),
    ]
