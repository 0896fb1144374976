"""Text to tokens and back, by the tokenizer in a model's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from batchwright.exceptions import ModelError
from batchwright.protocols.model import Tokenizer
from batchwright_engine.chat import unplaced_key

from . import embedded_model
from .chat_rendering import render_chat, special_tokens

__all__ = ["HuggingFaceTokenizer", "ModelTokenizer", "load_tokenizer"]

_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")


class HuggingFaceTokenizer:
    """A transformers tokenizer as the engine wants it; see ``Tokenizer``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, with the model's opening token if it has one."""
        return list(self._tokenizer.encode(text))

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens of a conversation, up to where the assistant answers.

        Raises:
            ModelError: The model has no chat template, or it refuses the messages.
        """
        if not self._tokenizer.chat_template:
            raise ModelError("this model has no chat template; send a text prompt instead")
        unplaced = unplaced_key(messages, str(self._tokenizer.chat_template))
        if unplaced:
            raise ModelError(f"{unplaced}: this model's chat template has no place for it")
        try:
            text = render_chat(self._render, messages)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the chat template refuses these messages: {error}") from error
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
            )
        )

    @property
    def special_tokens(self) -> dict[str, int]:
        """Tokens that ``decode`` leaves out, by how they are written."""
        return special_tokens(self._tokenizer.added_tokens_decoder)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The tokenizer's own end-of-sequence token, if it has one."""
        found = self._tokenizer.eos_token_id
        return (found,) if isinstance(found, int) else ()

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out, spaces as they are."""
        if self._backend is not None:
            return str(self._backend.decode(list(token_ids), skip_special_tokens=True))
        return str(
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )


class ModelTokenizer(Tokenizer, Protocol):
    """A tokenizer that came with a model."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Tokens that ``decode`` leaves out, by how they are written."""
        ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The tokenizer's own end-of-sequence tokens."""
        ...


def load_tokenizer(folder: Path) -> ModelTokenizer | None:
    """The tokenizer in a folder; None if there is none.

    Raises:
        ModelError: There is one, and it cannot be loaded.
    """
    if (folder / embedded_model.STAMP).is_file():
        from .converted_tokenizer import ConvertedTokenizer

        return ConvertedTokenizer(folder)
    if not any((folder / name).is_file() for name in _FILES):
        return None
    from transformers import AutoTokenizer

    try:
        return HuggingFaceTokenizer(AutoTokenizer.from_pretrained(folder, local_files_only=True))
    except Exception as error:
        raise ModelError(f"the tokenizer in {folder} cannot be loaded: {error}") from error
