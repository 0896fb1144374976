"""Tokenizers: with transformers and without, the same tokens, texts and errors."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchwright.exceptions import ModelError
from batchwright.protocols import ModelSettings
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions
from batchwright_engine.detokenizer import REPLACEMENT, Detokenizer
from batchwright_engine.executor import embedded_model
from batchwright_engine.executor.chat_rendering import render_chat
from batchwright_engine.executor.converted_tokenizer import ConvertedTokenizer
from batchwright_engine.executor.tokenizer import HuggingFaceTokenizer, load_tokenizer
from batchwright_engine.executor.torch_executor import TorchExecutor, TorchExecutorOptions

TEXTS = ("Hello, world! 123", "  x\t é 日本\n\n", "def f(x):\n    return x", "", "<|im_end|>")
CHATS = (
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?\n"}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "im "}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " "}],
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
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
    """The error has its place and its fault."""
    (tmp_path / "tokenizer.json").write_text("{")
    if stamp:
        (tmp_path / embedded_model.STAMP).touch()
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_tokenizer(tmp_path)


def small_tokenizer(folder: Path) -> None:
    """Write one of a Llama's kind: byte fallback, ``▁`` for a space, ``<|im_end|>`` ends."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁b", "€"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    space, strip = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
    steps = [space, decoders.ByteFallback(), decoders.Fuse(), strip]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("stamp", [False, True])
def test_a_tokenizer_says_its_special_tokens_and_its_end(tmp_path: Path, stamp: bool) -> None:
    small_tokenizer(tmp_path)
    if stamp:
        (tmp_path / embedded_model.STAMP).touch()
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer is not None
    special = {"<unk>": 0, "<s>": 1, "</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4}
    assert (tokenizer.eos_token_ids, tokenizer.special_tokens) == ((4,), special)


def test_a_tokenizers_own_end_token_ends_the_model(
    tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    """The model's config names another one; both end an answer."""
    folder = shutil.copytree(tiny_model("llama"), tmp_path / "model")
    small_tokenizer(folder)
    nothing: Any = None
    attention = [TorchAttention(TorchAttentionOptions(), nothing)]
    executor = TorchExecutor(TorchExecutorOptions(device="cpu", threads=1), nothing)
    info = executor.load(ModelSettings(path=str(folder), dtype="float32", attention=attention))
    assert info.eos_token_ids == (1, 4)
    assert info.special_tokens["<|im_end|>"] == 4


@pytest.mark.parametrize("seed", range(20))
def test_broken_bytes_leave_characters_alone(tmp_path: Path, seed: int) -> None:
    """Ten random strings with one dangling byte each, as a decoder with byte fallback has them."""
    small_tokenizer(tmp_path)
    tokenizer, chance = load_tokenizer(tmp_path), random.Random(seed)
    assert tokenizer is not None
    for _ in range(10):
        text = "".join(chance.choices("é😀中ß", k=6))
        data = list(text.encode())
        starts = [i for i, byte in enumerate([*data, 0]) if byte & 0xC0 != 0x80]
        data.insert(chance.choice(starts), chance.choice([0x80, 0xC3, 0xE4, 0xF0]))
        detokenizer, streamed = Detokenizer(tokenizer), ""
        for byte in data:
            detokenizer.append([5 + byte])
            streamed += detokenizer.take()
        streamed += detokenizer.take(final=True)
        assert streamed.replace(REPLACEMENT, "") == text


@pytest.mark.parametrize(
    ("last", "rest"),
    [
        (("user", "Hi"), "user\nHi<|im_end|>\n<|im_start|>assistant\n"),
        (("assistant", "im"), "assistant\nim"),
        (("assistant", "Sure: "), "assistant\nSure: "),
        (("assistant", " "), "assistant\n"),
        (("assistant", "<|im_end|>"), "assistant\n<|im_end|>"),
    ],
)
@pytest.mark.parametrize("stamp", [False, True])
def test_a_final_assistant_message_is_continued(
    tmp_path: Path, stamp: bool, last: tuple[str, str], rest: str
) -> None:
    """The prompt ends with it; it was closed, and answered anew."""
    small_tokenizer(tmp_path)
    if stamp:
        (tmp_path / embedded_model.STAMP).touch()
    tokenizer: Any = load_tokenizer(tmp_path)
    first = {"role": "system", "content": "im"}
    messages = [first, {"role": last[0], "content": last[1]}]
    expected = f"<|im_start|>system\nim<|im_end|>\n<|im_start|>{rest}"
    assert render_chat(tokenizer._render, messages) == expected
    ids = tokenizer._tokenizer.encode(expected, add_special_tokens=False)
    assert tokenizer.encode_chat(messages) == list(getattr(ids, "ids", ids))


def test_a_template_that_drops_the_final_message_says_so(tmp_path: Path) -> None:
    small_tokenizer(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ messages[0].content }}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer is not None
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(ModelError, match="does not show the last message"):
        tokenizer.encode_chat(messages)
