"""A model that is ready to be given batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.protocols.attention import AttentionSpec

if TYPE_CHECKING:
    import torch

    from .language_model import LanguageModel

__all__ = ["LoadedModel"]


@frozen(eq=False)
class LoadedModel:
    """A model that is ready to be given batches.

    Args:
        model: Computes it.
        spec: Its requirements of an attention backend.
        device: Its device.
        vocab_size: Token ids are below this.
        max_model_len: Longest request (tokens).
        eos_token_ids: End-of-sequence tokens.
        num_parameters: Weights, tied ones once.
        products: ``(num_outputs, num_inputs)`` of its matrix products, by how many it has.
    """

    model: LanguageModel
    spec: AttentionSpec
    device: torch.device
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    num_parameters: int
    products: Mapping[tuple[int, int], int]
