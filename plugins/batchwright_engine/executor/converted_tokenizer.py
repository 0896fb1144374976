"""The tokenizer of a folder that this package wrote, without transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from batchwright.exceptions import ModelError
from batchwright_engine.chat import unplaced_key

from .chat_rendering import render_chat, special_tokens

__all__ = ["ConvertedTokenizer"]


class ConvertedTokenizer:
    """Byte-level BPE and a chat template as the embedded models have them; see ``Tokenizer``.

    Args:
        folder: Folder of tokenizer.json and tokenizer_config.json.

    Attributes:
        special_tokens: Tokens that ``decode`` leaves out, by how they are written.
        eos_token_ids: The tokenizer's own end-of-sequence token, if it has one.

    Raises:
        ModelError: They cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        except Exception as error:  # tokenizers raises Exception itself
            raise ModelError(f"the tokenizer in {folder} cannot be loaded: {error}") from error
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._source: str = config["chat_template"]
        self._template = environment.from_string(self._source)
        self._alone: dict[int, str] = {}
        self.special_tokens = special_tokens(self._tokenizer.get_added_tokens_decoder())
        eos = self._tokenizer.token_to_id(config.get("eos_token") or "")
        self.eos_token_ids = () if eos is None else (eos,)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""
        return list(self._tokenizer.encode(text).ids)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens of a conversation, up to where the assistant answers.

        Raises:
            ModelError: The chat template refuses the messages.
        """
        unplaced = unplaced_key(messages, self._source)
        if unplaced:
            raise ModelError(f"{unplaced}: this model's chat template has no place for it")
        try:
            text = render_chat(self._render, messages)
        except (TemplateError, TypeError) as error:
            raise ModelError(f"the chat template refuses these messages: {error}") from error
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
        return self._template.render(messages=messages, add_generation_prompt=add_generation_prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out, spaces as they are.

        Streaming decodes every token after the one before it, and that one alone: what
        a token reads alone is remembered.
        """
        if len(token_ids) != 1:
            return str(self._tokenizer.decode(list(token_ids)))
        text = self._alone.get(token_ids[0])
        if text is None:
            text = self._alone[token_ids[0]] = str(self._tokenizer.decode(list(token_ids)))
        return text
