"""Tokenizers: with transformers and without, the same tokens and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from batchwright.exceptions import ModelError
from batchwright_plugins.executor import embedded_model
from batchwright_plugins.executor.converted_tokenizer import ConvertedTokenizer
from batchwright_plugins.executor.tokenizer import HuggingFaceTokenizer, load_tokenizer

TEXTS = ("Hello, world! 123", "  x\t é 日本\n\n", "def f(x):\n    return x", "", "<|im_end|>")
CHATS = (
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?\n"}],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A converted folder's tokenizer, without the stamp that says who wrote it."""
    pytest.importorskip("gguf")
    source = embedded_model.prepare("smollm2-135m")
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy(source / name, tmp_path / name)
    return tmp_path


@pytest.mark.model
def test_tokenizers_agree(folder: Path) -> None:
    """Texts, conversations, and every token by itself or after another."""
    theirs = load_tokenizer(folder)
    assert isinstance(theirs, HuggingFaceTokenizer)
    (folder / embedded_model.STAMP).touch()
    ours = load_tokenizer(folder)
    assert isinstance(ours, ConvertedTokenizer)
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
    for chat in CHATS:
        assert ours.encode_chat(chat) == theirs.encode_chat(chat)
    for token in (0, 1, 2, 17, 300, 19556, 49151):
        for _ in range(2):  # what it reads alone is remembered
            assert ours.decode([token]) == theirs.decode([token])
        assert ours.decode([19556, token]) == theirs.decode([19556, token])


@pytest.mark.model
def test_a_template_that_refuses_is_one_line(folder: Path) -> None:
    """Its error is told as the model's."""
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ messages[0].content.nobody.home }}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for kind in (HuggingFaceTokenizer, ConvertedTokenizer):
        tokenizer = load_tokenizer(folder)
        assert isinstance(tokenizer, kind)
        with pytest.raises(ModelError, match="chat template refuses"):
            tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
        (folder / embedded_model.STAMP).touch()


@pytest.mark.parametrize("stamp", [False, True])
def test_a_broken_tokenizer_is_named(tmp_path: Path, stamp: bool) -> None:
    """Where it lies and what is wrong with it."""
    (tmp_path / "tokenizer.json").write_text("{")
    if stamp:
        (tmp_path / embedded_model.STAMP).touch()
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_tokenizer(tmp_path)
