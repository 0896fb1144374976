"""Attention backends that ship with Batchwright; none imports torch before it is used."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_attention() -> list[Offer]:
    return [
        Offer("numba", "batchwright_engine.attention.numba_paged:NumbaAttention"),
        Offer("torch", "batchwright_engine.attention.torch_paged:TorchAttention"),
        Offer("torch-varlen", "batchwright_engine.attention.torch_varlen:TorchVarlenAttention"),
        Offer("triton", "batchwright_engine.attention.triton_paged:TritonAttention"),
        Offer("xformers", "batchwright_engine.attention.xformers_paged:XformersAttention"),
    ]
