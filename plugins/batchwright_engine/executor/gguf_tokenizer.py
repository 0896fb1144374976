"""Write the tokenizer that a GGUF file describes as Hugging Face files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

__all__ = ["write_tokenizer"]

_CONTROL = 3  # of llama.cpp's token types: never part of ordinary text


def write_tokenizer(fields: dict[str, Any], target: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json.

    Args:
        fields: The file's metadata, by key.
        target: An existing folder.

    Raises:
        ValueError: It is not byte-level BPE, or splits text in an unknown way.
    """
    model, split = fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]
    if (model, split) != ("gpt2", "smollm"):
        raise ValueError(f"unknown tokenizer {model!r} with text split as {split!r}")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False))
    # "smollm": every digit by itself, the rest as GPT-2 does.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in special])
    tokenizer.save(str(target / "tokenizer.json"))
    _write_config(fields, target / "tokenizer_config.json")


def _write_config(fields: dict[str, Any], path: Path) -> None:
    tokens = fields["tokenizer.ggml.tokens"]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "unk_token": tokens[fields["tokenizer.ggml.unknown_token_id"]],
        "pad_token": tokens[fields["tokenizer.ggml.padding_token_id"]],
        "chat_template": fields["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
    }
    path.write_text(json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8")
