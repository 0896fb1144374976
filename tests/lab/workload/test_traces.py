"""Traces become arrivals; a broken line names file, line and what was expected."""

from __future__ import annotations

import json
import tarfile
from array import array
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from batchwright import ConfigError, VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def make(name: str, folder: Path, **options: Any) -> Any:
    config = Config.from_dict(
        {"simulation": {"workload": name}, "workload": {name: options}}, base_path=folder
    )
    assembly = Assembly(config, plugins=PluginManager.discover(), clock=VirtualClock())
    return assembly.make(config.once("workload"))


def trace(folder: Path, name: str, text: str, **options: Any) -> Any:
    (folder / "trace").write_text(text)
    return make(name, folder, path="trace", **options)


def shared(left: Any, right: Any) -> int:
    """Tokens of the prefix that two arrivals have in common."""
    pairs = zip(left.prompt_token_ids, right.prompt_token_ids, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a != b),
        min(len(left.prompt_token_ids), len(right.prompt_token_ids)),
    )


AZURE = f"""{HEADER}
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.6805900,879,55
"""


def test_azure_rows_become_arrivals(tmp_path: Path) -> None:
    workload = trace(tmp_path, "azure", AZURE)
    found = list(workload.arrivals())
    assert [a.time for a in found] == [0.0, 4.314579, 5.0]
    assert [len(a.prompt_token_ids) for a in found] == [374, 396, 879]
    assert [a.num_output_tokens for a in found] == [44, 109, 55]
    assert [a.max_tokens for a in found] == [None] * 3
    assert shared(found[0], found[1]) == 0
    assert workload.max_output_tokens == 109
    assert workload.rate == 3 / 7.5  # the span and a mean gap behind it


def test_azure_times_have_any_digits_and_a_zone_or_none(tmp_path: Path) -> None:
    stamps = ["2024-05-10 00:00:00", "2024-05-10 00:00:00.5", "2024-05-10 02:00:01+02:00",
              "2024-05-10T00:00:01.123456789Z", "2024-05-10 00:00:02.009930+00:00"]  # fmt: skip
    text = "\n".join([HEADER, *(f"{stamp},5,1" for stamp in stamps)])
    found = [arrival.time for arrival in trace(tmp_path, "azure", text).arrivals()]
    assert found == [0.0, 0.5, 1.0, 1.123456, 2.00993]


def test_azure_trace_is_repeated_one_behind_the_other(tmp_path: Path) -> None:
    found = list(trace(tmp_path, "azure", AZURE, repeat=2).arrivals())
    assert [a.time for a in found] == [0.0, 4.314579, 5.0, 7.5, 11.814579, 12.5]
    assert shared(found[0], found[3]) == 0


BURSTGPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
"""


def test_burstgpt_leaves_failures_out_and_selects_a_model(tmp_path: Path) -> None:
    found = list(trace(tmp_path, "burstgpt", BURSTGPT).arrivals())
    assert [(a.time, len(a.prompt_token_ids)) for a in found] == [(0.0, 472), (113.0, 417)]
    only = list(trace(tmp_path, "burstgpt", BURSTGPT, model="GPT-4").arrivals())
    assert [a.num_output_tokens for a in only] == [276]


MOONCAKE = """\
{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 1100, "output_length": 50, "hash_ids": [0, 2, 3]}
{"timestamp": 3000, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}
"""


def test_mooncake_ids_become_equal_blocks(tmp_path: Path) -> None:
    first, second, third = trace(tmp_path, "mooncake", MOONCAKE).arrivals()
    assert [len(a.prompt_token_ids) for a in (first, second, third)] == [700, 1100, 1024]
    assert shared(first, second) == 512
    assert shared(second, third) == 1024


def test_mooncake_times_are_spread_up_to_the_next(tmp_path: Path) -> None:
    spread = [a.time for a in trace(tmp_path, "mooncake", MOONCAKE).arrivals()]
    assert 0 <= spread[0] < spread[1] < 3 <= spread[2] < 4.5
    plain = [a.time for a in trace(tmp_path, "mooncake", MOONCAKE, jitter=False).arrivals()]
    assert plain == [0.0, 0.0, 3.0]


def test_mooncake_block_size_is_that_of_the_trace(tmp_path: Path) -> None:
    text = '{"timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": [4, 5]}\n'
    (found,) = trace(tmp_path, "mooncake", text, block_size=16).arrivals()
    tokens = list(found.prompt_token_ids)
    assert len(set(tokens[:16])) == len(set(tokens[16:])) == 1
    assert tokens[0] != tokens[16]


def test_jsonl_says_all_that_a_request_can(tmp_path: Path) -> None:
    lines = [
        {"time": 0, "prompt_tokens": 30, "output_tokens": 4, "prefix": {"sys": 10, "doc": 10}},
        {"time": 1, "prompt_tokens": 25, "output_tokens": 4, "prefix": {"sys": 10, "doc": 10}},
        {
            "time": 1,
            "prompt_token_ids": [7, 8],
            "output_tokens": 2,
            "client": "ada",
            "group": "g",
            "priority": -1,
            "slo_class": "fast",
            "deadline": 2.5,
            "hints": {"x": 1},
            "max_tokens": 40,
            "request_id": "mine",
            "output_token_id": 77,
        },
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    workload = trace(tmp_path, "jsonl", text)
    first, second, third = workload.arrivals()
    assert shared(first, second) == 20
    assert list(third.prompt_token_ids) == [7, 8]
    assert (third.client, third.group, third.priority, third.slo_class) == ("ada", "g", -1, "fast")
    assert (third.deadline, third.hints, third.max_tokens) == (2.5, {"x": 1}, 40)
    assert (third.request_id, third.output_token_id) == ("mine", 77)
    assert (workload.rate, workload.max_output_tokens) == (2.0, 4)


SHAREGPT = [
    {
        "conversations": [
            {"from": "human", "value": "x" * 40},
            {"from": "gpt", "value": 5},
            {"from": "human", "value": 3},
            {"from": "gpt", "value": "y" * 28},
        ]
    },
    {"conversations": [{"from": "system", "value": "only this"}]},
    {"conversations": [{"role": "user", "content": 4}, {"role": "assistant", "content": 2}]},
]


class Ended:
    """An ended request, as far as a workload looks at it."""

    finish_time = 10.0

    def __init__(self, arrival: Any) -> None:
        self.prompt_token_ids = array("I", arrival.prompt_token_ids)
        self.output_token_ids = array("I", [9] * arrival.num_output_tokens)


def test_sharegpt_turns_have_what_was_said_in_their_prompt(tmp_path: Path) -> None:
    workload = trace(tmp_path, "sharegpt", json.dumps(SHAREGPT), think_time=0.0)
    first, other = workload.arrivals()
    assert (len(first.prompt_token_ids), first.num_output_tokens) == (10, 5)
    assert (len(other.prompt_token_ids), other.num_output_tokens) == (4, 2)
    (second,) = workload.on_finish(first, Ended(first))
    assert (second.time, second.num_output_tokens) == (10.0, 7)
    assert list(second.prompt_token_ids[:15]) == [*first.prompt_token_ids, 9, 9, 9, 9, 9]
    assert len(second.prompt_token_ids) == 18
    assert second.group == first.group != other.group
    assert list(workload.on_finish(second, Ended(second))) == []
    assert workload.max_output_tokens == 7


def test_sharegpt_counts_system_and_tool_turns_into_prompts(tmp_path: Path) -> None:
    roles = ("gpt", "system", "human", "gpt", "tool", "observation", "gpt", "human")
    said = [{"from": role, "value": 1 << i} for i, role in enumerate(roles)]
    workload = trace(tmp_path, "sharegpt", json.dumps([{"conversations": said}]))
    assert workload.conversations == [[(1 + 2 + 4, 8), (16 + 32, 64)]]


def test_mooncake_times_that_all_differ_are_spread_in_linear_time(tmp_path: Path) -> None:
    line = '{{"timestamp": {}, "input_length": 5, "output_length": 1, "hash_ids": [0]}}\n'
    text = "".join(line.format(number) for number in range(20_000))
    times = [arrival.time for arrival in trace(tmp_path, "mooncake", text).arrivals()]
    assert len(times) == 20_000
    assert times == sorted(times)


def clients(folder: Path) -> None:
    for number, rate in ((0, 4.0), (3, 1.0)):
        (folder / f"chunk-{number}-trace.csv").write_text(
            f"0,{rate},1.0,Gamma,1.0,9\n600,{rate},2.0,Gamma,0.25,9\n1200,0,0,,0,0\n"
        )
        spans = {
            "0": {"input_tokens": "{10: 1.0}", "output_tokens": f"{{{number + 1}: 1.0}}"},
            "600": {"input_tokens": "{50: 1.0}", "output_tokens": "{7: 1.0}"},
            "900": {"input_tokens": "{}", "output_tokens": "{}"},
        }
        (folder / f"chunk-{number}-dataset.json").write_text(json.dumps(spans))


def test_servegen_clients_have_their_own_rates_and_lengths(tmp_path: Path) -> None:
    clients(tmp_path)
    workload = make("servegen", tmp_path, path=".")
    found = list(workload.arrivals())
    counts = {name: sum(a.client == name for a in found) for name in ("client-0", "client-3")}
    assert 4400 < counts["client-0"] < 5200
    assert 1050 < counts["client-3"] < 1350
    assert workload.rate == 6000 / 1800  # nothing arrives in the last of three windows
    early = [a for a in found if a.time < 600]
    assert {(a.client, len(a.prompt_token_ids), a.num_output_tokens) for a in early} == {
        ("client-0", 10, 1),
        ("client-3", 10, 4),
    }
    late = [a for a in found if a.time >= 600]
    assert {(len(a.prompt_token_ids), a.num_output_tokens) for a in late} == {(50, 7)}


def test_servegen_plays_a_part_of_an_archive(tmp_path: Path) -> None:
    clients(tmp_path)
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        for path in sorted(tmp_path.glob("chunk-*")):
            archive.add(path, f"some/where/{path.name}")
    workload = make("servegen", tmp_path, path="all.tar.gz", start=600.0, seconds=60.0)
    found = list(workload.arrivals())
    assert found[0].time >= 0
    assert found[-1].time < 60
    assert {len(a.prompt_token_ids) for a in found} == {50}
    busiest = make("servegen", tmp_path, path="all.tar.gz", num_clients=1)
    assert {a.client for a in islice(busiest.arrivals(), 50)} == {"client-0"}


BROKEN = [
    ("azure", "a,b,c\n", 1, f"expected the header {HEADER}, got 'a,b,c'"),
    ("azure", f"{HEADER}\nyesterday,1,2\n", 2, "expected a time such as 2023"),
    ("azure", f"{HEADER}\n2023-11-16 18:15:46.68,5\n", 2, "expected a time and two numbers"),
    (
        "azure",
        f"{HEADER}\n2023-11-16 18:15:46.68,0,2\n",
        2,
        "expected ContextTokens, an integer >= 1",
    ),
    ("azure", f"{HEADER}\n2023-11-16 18:15:46.68,5,x\n", 2, "expected GeneratedTokens, an integer"),
    (
        "azure",
        f"{HEADER}\n2023-11-16 18:15:46.68,5,1\n2023-11-16 18:15:45.68,5,1\n",
        3,
        "expected a time not before that of the line above",
    ),
    ("burstgpt", "Time,Model\n", 1, "expected a header with Timestamp, Model"),
    ("burstgpt", f"{BURSTGPT}1,2,3\n", 5, "expected 6 values"),
    ("burstgpt", f"{BURSTGPT}x,ChatGPT,1,1,2,log\n", 5, "expected Timestamp, seconds >= 0"),
    ("burstgpt", f"{BURSTGPT}1,ChatGPT,1,1,2,log\n", 5, "expected a Timestamp not before"),
    ("mooncake", "{\n", 1, "expected a JSON object"),
    ("mooncake", '{"timestamp": 0}\n', 1, "expected an object with timestamp, input_length"),
    ("mooncake", MOONCAKE.replace("3000", "-1"), 3, "expected timestamp, milliseconds >= 0"),
    ("mooncake", MOONCAKE.replace("[0, 1]", "[0]"), 1, "expected 2 hash_ids for 700 tokens"),
    ("mooncake", MOONCAKE.replace("[0, 1]", "[0, -1]"), 1, "expected hash_ids, integers from 0"),
    ("jsonl", "[]\n", 1, "expected a JSON object"),
    ("jsonl", "nonsense\n", 1, "expected a JSON object"),
    ("jsonl", '{"time": 0, "tokens": 5}\n', 1, "expected only keys of"),
    ("jsonl", '{"time": true, "prompt_tokens": 1, "output_tokens": 1}\n', 1, "expected time"),
    ("jsonl", '{"time": 1e400, "prompt_tokens": 1, "output_tokens": 1}\n', 1, "expected time"),
    (
        "jsonl",
        '{"time": 0, "prompt_tokens": 10000001, "output_tokens": 1}\n',
        1,
        "expected prompt_tokens, an integer >= 1 and <= 10000000, got 10000001",
    ),
    (
        "jsonl",
        '{"time": 0, "prompt_tokens": 1, "output_tokens": 1, "deadline": NaN}\n',
        1,
        "expected deadline, a number from -9007199254740992 to 9007199254740992 (seconds), got nan",
    ),
    (
        "jsonl",
        '{"time": 0, "prompt_tokens": 1, "output_tokens": 1, "client": "\\ud800"}\n',
        1,
        "expected client, a string",
    ),
    ("azure", f"{HEADER}\n2023-11-16 18:15:46.68,{'9' * 5000},2\n", 2, "expected ContextTokens"),
    ("jsonl", '{"time": 0, "prompt_tokens": 1.5, "output_tokens": 1}\n', 1, "prompt_tokens"),
    ("jsonl", '{"time": 0, "prompt_tokens": 1}\n', 1, "output_tokens"),
    ("jsonl", '{"time": 0, "prompt_token_ids": [-1], "output_tokens": 1}\n', 1, "token ids"),
    (
        "jsonl",
        '{"time": 0, "prompt_tokens": 3, "output_tokens": 1, "prefix": {"a": 9}}\n',
        1,
        "a prefix within prompt_tokens",
    ),
    ("jsonl", '{"time": 0, "prompt_tokens": 3, "output_tokens": 1, "prefix": 4}\n', 1, "prefix"),
    (
        "jsonl",
        '{"time": 0, "prompt_tokens": 3, "output_tokens": 1, "priority": "high"}\n',
        1,
        "priority, an integer",
    ),
    (
        "jsonl",
        '{"time": 2, "prompt_tokens": 3, "output_tokens": 1}\n'
        '{"time": 1, "prompt_tokens": 3, "output_tokens": 1}\n',
        2,
        "expected a time not before 2.0",
    ),
    *(
        (
            "jsonl",
            f'{{"time": 0, "prompt_tokens": 3, "output_tokens": 1, "{name}": {value}}}\n',
            1,
            f"expected {name}, ",
        )
        for name, value in [
            ("deadline", 10**400),
            ("priority", 2**63),
            ("max_tokens", 0),
            ("max_tokens", 2**31),
            ("output_token_id", 2**32),
            ("time", 10**400),
        ]
    ),
    ("sharegpt", "[\n{", 2, "expected JSON"),
    ("sharegpt", "[\n\n" + "[" * 100_000, 3, "expected JSON (it is nested too deeply)"),
    (
        "sharegpt",
        '[{"conversations": []},\n{"conversations": [{"value": 3}]}]',
        2,
        "'role', a text",
    ),
    (
        "sharegpt",
        f'[{{"conversations": [{{"from": "gpt", "value": {10**9}}}]}}]',
        1,
        "with a value",
    ),
    ("sharegpt", "[]\n\nx", 3, "expected nothing behind the array"),
    ("azure", f"{HEADER}\n2023-11-16,5,1\n", 2, "expected a time such as 2023"),
    ("azure", "", 1, f"expected the header {HEADER}, got ''"),
    ("burstgpt", f"{BURSTGPT}inf,ChatGPT,1,1,2,log\n", 5, "expected Timestamp, seconds >= 0"),
    ("burstgpt", f'{BURSTGPT}1,"{"x" * 200_000},1,1,2,log\n', 5, "field larger than field limit"),
    ("burstgpt", BURSTGPT.replace("Model", "Timestamp"), 1, "expected a header with Timestamp"),
    ("mooncake", "[" * 100_000, 1, "expected a JSON object (it is nested too deeply)"),
    ("mooncake", MOONCAKE.replace("3000", "9" * 5000), 3, "expected a JSON object (Exceeds the"),
    ("mooncake", MOONCAKE.replace("3000", "Infinity"), 3, "expected timestamp, milliseconds"),
    ("mooncake", MOONCAKE.replace("3000", f"1{'0' * 400}"), 3, "expected timestamp, milliseconds"),
    ("jsonl", "{" * 100_000, 1, "expected a JSON object"),
    ("jsonl", '{"time": 0, "prompt_tokens": 1, "output_tokens": 1}\n\0\n', 2, "a JSON object"),
    (
        "jsonl",
        f'{{"time": 0, "prompt_tokens": 1, "output_tokens": 1, "deadline": 1{"0" * 400}}}\n',
        1,
        "expected deadline, a number from -9007199254740992 to 9007199254740992 (seconds)",
    ),
    (
        "mooncake",
        '{"chat_id": 1, "turn": 1, "timestamp": 1.5, "input_length": 20, "output_length": 5, '
        '"hash_ids": [4, 5]}\n',
        1,
        "one with chat_id, parent_chat_id, turn has blocks of 16 tokens and times in seconds, and "
        "is not read, got 'the key chat_id'",
    ),
    ("sharegpt", "{}", 1, "expected an array of conversations"),
]


@pytest.mark.parametrize(("name", "text", "line", "expected"), BROKEN)
def test_broken_line_is_named(
    name: str, text: str, line: int, expected: str, tmp_path: Path
) -> None:
    workload = trace(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        list(workload.arrivals())
    assert f"{tmp_path / 'trace'}:{line}: " in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["azure", "burstgpt", "jsonl", "mooncake", "servegen", "sharegpt"])
def test_missing_file_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"workload.{name}.path: .*cannot be read"):
        list(make(name, tmp_path, path="nowhere").arrivals())
    with pytest.raises(ConfigError, match=f"workload.{name}.path: names no "):
        make(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [("azure", f"{HEADER}\n"), ("mooncake", ""), ("jsonl", ""), ("sharegpt", "[]")],
)
def test_empty_trace_is_an_error(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no request"):
        list(trace(tmp_path, name, text).arrivals())
    with pytest.raises(ConfigError, match="holds no request"):
        trace(tmp_path, name, text).max_output_tokens  # noqa: B018


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("chunk-0-trace.csv", "0,x,1,Gamma,1,1\n", "expected start, rate, cv"),
        ("chunk-0-trace.csv", "600,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", "expected a later start"),
        ("chunk-0-dataset.json", "{", "expected input_tokens and output_tokens"),
        ("chunk-0-dataset.json", '{"0": {"input_tokens": "{1: 1.0}"}}', "expected input_tokens"),
        ("chunk-0-dataset.json", None, "has chunk-0-trace.csv, but no chunk-0-dataset.json"),
    ],
)
def test_broken_client_mix_is_named(
    name: str, content: str | None, expected: str, tmp_path: Path
) -> None:
    clients(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=expected):
        make("servegen", tmp_path, path=".").max_output_tokens  # noqa: B018


def test_folder_without_clients_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no chunk-N-trace\.csv with lengths"):
        make("servegen", tmp_path, path=".").max_output_tokens  # noqa: B018


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"id": 1}, "expected an object with a list 'conversations'"),
        ({"conversations": [{"from": "human", "value": -1}]}, "expected a message with a value"),
        ({"conversations": ["hello"]}, "expected a message with 'from' or 'role'"),
    ],
)
def test_broken_conversation_is_named(record: Any, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"trace:1: conversation 0: {expected}"):
        list(trace(tmp_path, "sharegpt", json.dumps([record])).arrivals())
