"""The model that an executor loads: settings, facts and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from batchwright.protocols.attention import AttentionBackend


class Tokenizer(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, as the model expects a prompt to begin."""

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens of a conversation under the model's chat template, ready to answer.

        The last message, if it is the assistant's, is the beginning of the answer: it is
        left open and continued.

        Args:
            messages: ``role`` and ``content``, texts; as the engine normalizes them,
                ``name``, ``tool_call_id``, ``reasoning_content`` and ``tool_calls`` beside.
        """

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out."""


@frozen(kw_only=True)
class ModelSettings:
    """Configuration of the model (section ``[model]``).

    Args:
        path: Local Hugging Face folder, or the name of an embedded model.
        dtype: ``auto``, ``float32``, ``bfloat16`` or ``float16``.
        max_model_len: Longest request, prompt and outputs (tokens); None: the model's.
        seed: Seed of sampling streams of requests without one.
        attention: The attention backend to compute with, in order of preference.
        block_size: Tokens a block of the KV cache; 0: not known.
    """

    path: str
    dtype: str = "auto"
    max_model_len: int | None = None
    seed: int = 0
    attention: Sequence[AttentionBackend] = field(factory=tuple)
    block_size: int = 0


@frozen(kw_only=True)
class ModelInfo:
    """Facts about the loaded model.

    Args:
        name: Name for people.
        max_model_len: Longest request that it can serve (tokens).
        vocab_size: Token ids are below this.
        eos_token_ids: End-of-sequence tokens.
        kv_bytes_per_token: KV cache bytes a token, all layers.
        sliding_window: Longest attention span (tokens) if every layer has one.
        tokenizer: None if the model has none.
        special_tokens: Tokens that ``tokenizer.decode`` leaves out, by their text.
        attention: Name of the attention backend in use.
        attention_others: Name of each other one, and the reason why it is not in use.
        notes: Facts for people: sizes, device, threads, load time.
    """

    name: str
    max_model_len: int
    vocab_size: int
    eos_token_ids: tuple[int, ...] = ()
    kv_bytes_per_token: int = 0
    sliding_window: int | None = None
    tokenizer: Tokenizer | None = None
    special_tokens: Mapping[str, int] = field(factory=dict, repr=False)
    attention: str = ""
    attention_others: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    path: Path | None = None
