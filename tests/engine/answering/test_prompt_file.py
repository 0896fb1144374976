"""Files of prompts: what a line may say, and what is said about a broken one."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from batchwright import ConfigError, SamplingParams
from batchwright_engine.answering.prompt_file import read_prompts

DEFAULT = SamplingParams(max_tokens=5, temperature=0.5)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read lines (text, or objects) as a file of a name."""

    def read(*lines: Any, name: str = "prompts.jsonl") -> Any:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path = tmp_path / name
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return read_prompts(path, DEFAULT)

    return read


def problem(read: Any, *lines: Any) -> str:
    """Return the error of a file, without the folder."""
    with pytest.raises(ConfigError) as caught:
        read(*lines)
    folder, _, message = str(caught.value).partition("prompts.jsonl")
    return f"{Path(folder).name and ''}{message}"


def test_text_lines_are_prompts(read: Any) -> None:
    first, second = read("one", "", "  {two}", name="prompts.txt")
    assert (first.prompt, first.number, first.request_id) == ("one", 1, "line-1")
    assert (second.prompt, second.number, second.request_id) == ("{two}", 3, "line-3")
    assert second.sampling == DEFAULT


def test_json_lines_bring_their_own_options(read: Any) -> None:
    (line,) = read(
        {
            "id": "a",
            "prompt": "Hi",
            "max_tokens": 7,
            "sampling": {"seed": 3, "stop": "x"},
            "priority": 2,
            "client": "ada",
            "group": "g",
            "slo_class": "fast",
            "deadline": 1.5,
            "hints": {"k": [1]},
            "cache_salt": "s",
        }
    )
    assert line.request_id == "a"
    assert line.sampling == SamplingParams(max_tokens=7, temperature=0.5, seed=3, stop="x")
    assert line.fields == {
        "priority": 2,
        "client": "ada",
        "group": "g",
        "slo_class": "fast",
        "deadline": 1.5,
        "hints": {"k": [1]},
        "cache_salt": "s",
    }


def test_json_lines_hold_conversations_and_tokens(read: Any) -> None:
    chat, tokens = read(
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"prompt_token_ids": [1, 2], "request_id": "t"},
    )
    assert chat.source == {"messages": [{"role": "user", "content": "Hi"}]}
    assert tokens.source == {"prompt_token_ids": [1, 2]}
    assert tokens.request_id == "t"


def test_byte_order_mark_and_crlf_are_no_part_of_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert [line.prompt for line in read_prompts(path, DEFAULT)] == ["one", "two"]


def test_json_lines_in_a_file_of_another_name_are_no_text(read: Any) -> None:
    """The first line says so: it begins with a brace and has a prompt's key."""
    lines = [{"id": "a", "prompt": "Hi"}, {"messages": [{"role": "user", "content": "Hi"}]}]
    found = [read(*lines, name=name) for name in ("prompts.txt", "prompts", "prompts.json")]
    assert [[line.request_id for line in lines] for lines in found] == [["a", "line-2"]] * 3
    (text,) = read('{"a": 1} is what?', name="prompts.txt")
    assert text.prompt == '{"a": 1} is what?'
    with pytest.raises(ConfigError, match=r"p\.txt:2: expected a JSON object"):
        read({"prompt": "Hi"}, "not JSON", name="p.txt")
    with pytest.raises(ConfigError, match=r"p\.json:1: .*got a JSON array"):
        read("[", name="p.json")


def test_chat_parts_are_taken_and_others_named(read: Any) -> None:
    parts = [{"type": "text", "text": "Hi"}]
    (line,) = read({"messages": [{"role": "user", "content": parts, "name": "ada"}]})
    assert line.source == {"messages": [{"role": "user", "content": parts, "name": "ada"}]}
    image = [{"type": "image_url"}]
    said = problem(read, {"messages": [{"role": "user", "content": image}]})
    assert said.startswith(":1: messages[0].content[0].type: expected 'text', got \"image_url\"")


@pytest.mark.parametrize(
    ("data", "prompts"), [(b'{"prompt": "a"}\n', ["a"]), (b"a\n{b\n", ["a", "{b"])]
)
def test_standard_input_is_json_if_it_begins_so(
    monkeypatch: pytest.MonkeyPatch, data: bytes, prompts: list[str]
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(data))
    monkeypatch.setattr("sys.stdin", stdin)
    assert [line.prompt for line in read_prompts(Path("-"), DEFAULT)] == prompts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":1: expected a JSON object, got invalid JSON: "),
        ("[1]", ":1: expected a JSON object, got [1]"),
        ("[" * 100_000, ":1: expected a JSON object, got one nested too deeply"),
        ({}, ":1: expected one of prompt, messages, prompt_token_ids; got none of them"),
        (
            {"prompt": "a", "messages": []},
            ":1: expected one of prompt, messages, prompt_token_ids; got prompt and ",
        ),
        ({"promt": "a"}, ":1: promt: unknown key. Did you mean 'prompt'? Keys: prompt, "),
        ({"prompt": 3}, ":1: prompt: expected a string, got 3"),
        ({"prompt_token_ids": [-1]}, ":1: prompt_token_ids must hold token ids, integers "),
        ({"prompt_token_ids": []}, ":1: prompt_token_ids: expected a list of token ids"),
        ({"messages": []}, ":1: messages: expected a list of messages, got []"),
        ({"messages": [{"role": "user"}]}, ":1: messages[0].content: expected a string or "),
        ({"prompt": "a", "max_tokens": "7"}, ":1: max_tokens must be an integer from 1"),
        ({"prompt": "a", "top_p": 2}, ":1: top_p must be a number above 0 and up to 1, not 2"),
        ({"prompt": "a", "stop": 3}, ":1: stop: expected a list, got 3"),
        ({"prompt": "a", "sampling": 3}, ":1: sampling: expected an object, got 3"),
        (
            {"prompt": "a", "sampling": {"temprature": 1}},
            ":1: sampling.temprature: unknown key. Did you mean 'temperature'? Keys: max",
        ),
        (
            {"prompt": "a", "seed": 1, "sampling": {"seed": 2}},
            ":1: sampling.seed: is given as seed, too; keep one of them",
        ),
        ('{"prompt": "a", "prompt": "b"}', ":1: prompt: is given twice"),
        ({"prompt": "a", "id": 7}, ":1: id: expected a non-empty string, got 7"),
        ({"prompt": "a", "id": "x", "request_id": "y"}, ":1: id: is given as request_id,"),
        ({"prompt": "a", "priority": True}, ":1: priority must be an integer from "),
        ('{"prompt": "a", "deadline": NaN}', ":1: deadline must be a number from "),
        (f'{{"prompt": "a", "seed": {"9" * 5000}}}', ":1: expected a JSON object, got invalid"),
        ({"prompt": "a", "top_k": 2**63}, ":1: top_k must be an integer from 0 to 2147483647 ("),
        (
            {"prompt": "a", "temperature": 10**400},
            ":1: temperature must be a number from 0 to 1000 (0 is greedy), "
            "not 1000000000... (401 digits)",
        ),
        ('{"prompt": "a", "deadline": 1e400}', ":1: deadline must be a number from "),
        ({"prompt": "a", "deadline": 10**400}, ":1: deadline must be a number from "),
        ({"prompt": "a", "client": 7}, ":1: client: expected a string, got 7"),
        ({"prompt": "a", "hints": []}, ":1: hints: expected an object, got []"),
    ],
)
def test_broken_line_is_named_with_its_key(read: Any, line: Any, message: str) -> None:
    assert problem(read, line).startswith(message)


def test_all_broken_lines_are_named_at_once(read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read({"prompt": "fine"}, *[{"prompt": n} for n in range(12)])
    lines = str(caught.value).split("\n")
    assert lines[0] == "12 broken lines:"
    assert lines[1].endswith("prompts.jsonl:2: prompt: expected a string, got 0")
    assert lines[10].endswith("prompts.jsonl:11: prompt: expected a string, got 9")
    assert lines[11:] == ["  and 2 more"]


def test_ids_are_unique_also_against_those_made_up(read: Any) -> None:
    message = problem(read, {"prompt": "a", "id": "line-2"}, {"prompt": "b"})
    assert message == ":2: id: 'line-2' is the id of line 1 already; ids must be unique"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\n \n", "holds no prompt"),
        (b"a\n\xff\n", ":2: expected UTF-8, got the byte 0xff"),
    ],
)
def test_unreadable_file_is_named(tmp_path: Path, data: bytes | None, message: str) -> None:
    path = tmp_path / "prompts.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_prompts(path, DEFAULT)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
