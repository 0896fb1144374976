"""Configurations are read strictly; every mistake is named with its path."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from attrs import field, frozen, validators

from batchwright.config import Config, Use
from batchwright.config.sections import section_types
from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright_engine.sections import RunSection
from batchwright_lab.sections import SimulationSection


def problems(table: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(table, source="run.toml")
    assert caught.value.source == "run.toml"
    return str(caught.value)


# Values


def test_empty_configuration_has_the_documented_defaults():
    config = Config.from_dict({})

    assert config.scheduler.policy == "fcfs"
    assert config.scheduler.max_num_batched_tokens == 2048
    assert config.scheduler.max_num_scheduled_tokens == 2048
    assert config.scheduler.max_num_seqs == 256
    assert config.scheduler.victim == "auto"
    assert (config.kv.block_size, config.kv.num_blocks, config.kv.memory_bytes) == (16, None, None)
    assert (Use("gate", "full-need", "gate[0]", "gate[0].use"),) == config.gate
    assert () == config.limit == config.control == config.resource == config.observer
    assert config.max_model_len == 8192


@pytest.mark.parametrize(("num_tokens", "expected"), [(64, 64), (256, 256), (4096, 256)])
def test_max_num_seqs_defaults_to_what_a_step_can_hold(num_tokens, expected):
    config = Config.from_dict({"scheduler": {"max_num_batched_tokens": num_tokens}})

    assert expected == config.scheduler.max_num_seqs


def test_max_model_len_is_unknown_where_only_the_model_can_say_it():
    assert None is Config.from_dict({"model": {"path": "m"}}).max_model_len
    assert Config.from_dict({"model": {"path": "m", "max_model_len": 99}}).max_model_len == 99


def test_name_of_a_file_is_refused_with_how_to_read_one():
    with pytest.raises(ConfigError, match=r"expected a dict of tables.*load_config\(path\)"):
        Config.from_dict("run.toml")


def test_none_counts_as_not_given():
    table = {"scheduler": {"max_num_seqs": None}, "kv": None, "gate": [{"use": "g", "x": None}]}

    config = Config.from_dict(table)

    assert config.scheduler.max_num_seqs == 256
    assert config.gate[0].options == {}


def test_integer_is_accepted_for_a_number():
    value = Config.from_dict({"sampling": {"temperature": 1}}).sampling.temperature

    assert value == 1.0
    assert float is type(value)


def test_lists_replace_the_default_list_and_keep_order():
    gates = [{"use": "b", "x": 1}, {"use": "a"}, {"use": "b", "x": 2}]

    config = Config.from_dict({"gate": gates})

    assert [use.name for use in config.gate] == ["b", "a", "b"]
    assert [use.options for use in config.gate] == [{"x": 1}, {}, {"x": 2}]
    assert config.gate[2].path == "gate[2]"
    assert Config.from_dict({"gate": []}).gate == ()


def test_options_of_a_component_chosen_once_have_their_own_table():
    config = Config.from_dict(
        {
            "scheduler": {"policy": "fair"},
            "policy": {"fair": {"weight": 2.0}, "other": {}},
            "kv": {"block_size": 8, "paged": {"x": 1}},
        }
    )

    assert Use("policy", "fair", "policy.fair", "scheduler.policy", {"weight": 2.0}) == (
        config.once("policy")
    )
    assert config.once("kv").options == {"x": 1}
    assert config.kv.block_size == 8
    assert config.named("policy", "none").options == {}
    unselected = [use for use in config.uses() if use.name == "other"]
    assert [Use("policy", "other", "policy.other")] == unselected


def test_uses_leave_out_what_is_chosen_automatically():
    assert {"victim", "attention"}.isdisjoint(use.kind for use in Config().uses())


def test_relative_paths_start_from_the_folder_of_the_file(tmp_path):
    table = {"plugins": {"load": ["./a.py", str(tmp_path / "b.py")]}}

    config = Config.from_dict(table, base_path=Path("folder"))

    assert [Path("folder/a.py"), tmp_path / "b.py"] == config.plugin_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1 GiB", 2**30), ("1.5 MiB", 3 * 2**19), ("800 MB", 800_000_000), ("64B", 64)],
)
def test_memory_is_read_in_bytes(text, expected):
    assert expected == Config.from_dict({"kv": {"memory": text}}).kv.memory_bytes


# Mistakes


@pytest.mark.parametrize(
    ("section", "key", "value", "expected"),
    [
        ("scheduler", "max_num_seqs", True, "expected an integer, got True"),
        ("scheduler", "max_num_seqs", 8.0, "expected an integer, got 8.0"),
        ("scheduler", "max_num_seqs", "8", "expected an integer, got '8'"),
        ("scheduler", "policy", 3, "expected a string, got 3"),
        ("scheduler", "enable_chunked_prefill", 1, "expected true or false, got 1"),
        ("sampling", "temperature", True, "expected a number, got True"),
        ("sampling", "temperature", float("nan"), "expected a number, got nan"),
        ("sampling", "stop", "x", "expected an array (each a string), got 'x'"),
        ("run", "prompts", 1, "expected a string, got 1"),
        ("plugins", "load", "a.py", "expected an array (each a string), got 'a.py'"),
        (
            "kv",
            "memory",
            f"1{0:0400} B",
            f"expected a size that a machine can have, got '1{0:0400} B'",
        ),
        ("kv", "memory", "7", "expected a size such as '1 GiB' or '800 MB', got '7'"),
        ("kv", "memory", "0 B", "expected at least one byte, got '0 B'"),
        (
            "model",
            "dtype",
            "bfloat",
            "expected one of 'auto', 'float32', 'bfloat16', 'float16', got 'bfloat'. "
            "Did you mean 'bfloat16'?",
        ),
    ],
)
def test_wrong_value_is_refused_with_its_path(section, key, value, expected):
    message = problems({section: {key: value}})

    assert f"run.toml: {section}.{key}: {expected}" == message


@pytest.mark.parametrize("value", [-1, 0])
@pytest.mark.parametrize(
    ("path", "smallest"),
    [
        ("scheduler.max_num_batched_tokens", 1),
        ("scheduler.max_num_scheduled_tokens", 1),
        ("scheduler.max_num_seqs", 1),
        ("scheduler.pipeline_depth", 1),
        ("scheduler.scan_window", 1),
        ("scheduler.stall_steps", 1),
        ("scheduler.max_component_faults", 1),
        ("kv.block_size", "1 and <= 65536"),
        ("kv.num_blocks", 2),
        ("model.max_model_len", 2),
    ],
)
def test_caps_below_their_range_are_refused(path, smallest, value):
    section, key = path.split(".")

    message = problems({section: {key: value}})

    assert f"{path}: expected a number >= {smallest}, got {value}" in message


@pytest.mark.parametrize(
    "path",
    [
        "scheduler.backfill",
        "scheduler.num_lookahead_tokens",
        "executor.max_restarts",
        "run.num_answers_shown",
    ],
)
def test_zero_means_none_where_it_is_documented(path):
    section, key = path.split(".")

    assert getattr(Config.from_dict({section: {key: 0}}).sections()[section], key) == 0
    expected = f"{path}: expected a number >= 0, got -1"
    assert expected in problems({section: {key: -1}})


def test_unknown_option_suggests_and_lists():
    message = problems({"scheduler": {"polcy": "fair"}})

    expected = "scheduler.polcy: unknown option. Did you mean 'policy'? Options: use, policy,"
    assert expected in message


def test_unknown_section_suggests_and_lists():
    message = problems({"schedular": {}})

    assert "schedular: unknown section. Did you mean 'scheduler'? Sections: model," in message


def test_section_must_be_a_table():
    assert problems({"run": 5}) == "run.toml: run: expected a table, got 5"
    assert problems({"kv": 5}) == "run.toml: kv: expected a table, got 5"


def test_kind_chosen_once_is_not_chosen_by_its_table():
    expected = (
        "policy: expected tables of options, [policy.NAME], got 'fair'; "
        "choose the policy with scheduler.policy"
    )

    assert expected in problems({"policy": "fair"})
    assert "victim: expected tables of options" in problems({"victim": {"random": 3}})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"use": "x"}, "gate: expected an array of tables, [[gate]], got {'use': 'x'}"),
        (["full"], "gate[0]: expected a table, got 'full'"),
        ([{}], "gate[0].use: expected the name of a gate, got None"),
        ([{"use": "a"}, {"use": 1}], "gate[1].use: expected the name of a gate, got 1"),
    ],
)
def test_malformed_list_is_refused(value, expected):
    assert f"run.toml: {expected}" == problems({"gate": value})


def test_all_mistakes_are_reported_at_once():
    message = problems(
        {
            "scheduler": {"policy": 3, "max_num_seqs": 0, "seeed": 1},
            "sampling": {"stop_token_ids": [1, "a"]},
            "gate": [{}],
        }
    )

    assert "run.toml: 5 problems:" in message
    for path in (
        "scheduler.policy",
        "scheduler.max_num_seqs",
        "scheduler.seeed",
        "sampling.stop_token_ids[1]",
        "gate[0].use",
    ):
        assert f"\n  {path}: " in message


# Options of components


@frozen
class Inner:
    depth: int = 1


@frozen(kw_only=True)
class Options:
    needed: int
    share: float = option(0.5, "A share.", ge=0, lt=1)
    rate: float = field(default=1.0, validator=validators.gt(0))
    mode: Literal["a", "b"] = "a"
    either: int | str | None = None
    maybe: float | None = None
    weights: dict[str, float] = field(factory=dict)
    names: list[str] = field(factory=list)
    pair: tuple[int, ...] = ()
    where: Path = Path()
    inner: Inner = Inner()


class Component:
    Options = Options


def test_build_options_builds_every_type():
    options = Config().build_options(
        Component,
        {
            "needed": 3,
            "share": 0,
            "mode": "b",
            "either": "x",
            "maybe": 2,
            "weights": {"a": 1},
            "names": ["n"],
            "pair": [1, 2],
            "where": "x/y",
            "inner": {"depth": 2},
        },
        "gate[1]",
    )

    assert options == Options(
        needed=3,
        share=0.0,
        mode="b",
        either="x",
        maybe=2.0,
        weights={"a": 1.0},
        names=["n"],
        pair=(1, 2),
        where=Path("x/y"),
        inner=Inner(depth=2),
    )


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "gate[1].needed: is required"),
        ({"needed": 1, "share": 1}, "gate[1].share: expected a number >= 0 and < 1, got 1.0"),
        ({"needed": 1, "rate": 0}, "gate[1]: 'rate' must be > 0: 0.0"),
        ({"needed": 1, "mode": "c"}, "gate[1].mode: expected one of 'a', 'b', got 'c'"),
        ({"needed": 1, "either": 1.5}, "gate[1].either: expected an integer or a string, got"),
        ({"needed": 1, "weights": {"a": "x"}}, "[1].weights.a: expected a number, got 'x'"),
        ({"needed": 1, "weights": 3}, "gate[1].weights: expected a table, got 3"),
        ({"needed": 1, "where": 3}, "gate[1].where: expected a path, got 3"),
        ({"needed": 1, "inner": {"depht": 3}}, "gate[1].inner.depht: unknown option."),
        ({"needed": 1, "inner": 3}, "gate[1].inner: expected a table, got 3"),
    ],
)
def test_build_options_refuses_with_the_path(table, expected):
    with pytest.raises(ConfigError) as caught:
        Config(source="run.toml").build_options(Component, table, "gate[1]")

    assert expected in str(caught.value)
    assert caught.value.source == "run.toml"


def test_range_is_checked_without_toml_too():
    with pytest.raises(ValueError, match="share: expected a number >= 0 and < 1, got 2"):
        Options(needed=1, share=2)


def test_section_of_another_package_is_read_and_replaced() -> None:
    config = Config.from_dict({"run": {"prompts": "a.jsonl"}, "simulation": {"until": 5}})
    assert config.section(RunSection) == RunSection(prompts="a.jsonl")
    later = config.with_section(SimulationSection(until=7.0))
    assert later.section(SimulationSection).until == 7.0
    assert config.section(SimulationSection).until == 5.0
    assert Config.from_dict({"run": {}, "simulation": {"max_tokens": "class"}}) == Config()


def test_sections_are_declared_under_their_names() -> None:
    declared = {name: getattr(cls, "name", name) for name, cls in section_types().items()}
    assert declared == {name: name for name in declared}
