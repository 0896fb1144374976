"""Files and overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright.assembly import Assembly
from batchwright.config import load_config
from batchwright.exceptions import ConfigError
from batchwright_engine.sections import RunSection
from batchwright_plugins.config_file import apply_override


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text('[scheduler]\npolicy = "fcfs"\n[[limit]]\nuse = "a"\nx = 1\n')
    return path


def test_load_config_reads_a_file(toml):
    config = load_config(toml)

    assert str(toml) == config.source
    assert toml.parent == config.base_path
    assert config.limit[0].options == {"x": 1}


def test_load_config_without_a_file_is_all_defaults():
    assert load_config(None).scheduler.policy == "fcfs"


def test_overrides_are_applied_in_order(toml):
    config = load_config(
        toml,
        [
            "scheduler.max_num_seqs=4",
            "scheduler.max_num_seqs = 8",
            "scheduler.policy=fair",
            "limit[0].x=2.5",
            "limit[1].use=b",
            "policy.fair.weights=[1, 2]",
            "kv.memory=1 GiB",
            'run.system="a = b"',
        ],
    )

    assert config.scheduler.max_num_seqs == 8
    assert config.scheduler.policy == "fair"
    assert [(u.name, u.options) for u in config.limit] == [("a", {"x": 2.5}), ("b", {})]
    assert config.once("policy").options == {"weights": [1, 2]}
    assert config.kv.memory_bytes == 2**30
    assert config.section(RunSection).system == "a = b"


def test_override_reaches_into_the_default_list():
    config = load_config(None, ["gate[0].fraction=0.1", "gate[1].use=other"])

    assert [(use.name, use.options) for use in config.gate] == [
        ("full-need", {"fraction": 0.1}),
        ("other", {}),
    ]


def test_override_replaces_a_list_whole():
    assert load_config(None, ["gate=[]"]).gate == ()


def test_value_that_would_smuggle_in_keys_is_a_string():
    table: dict[str, object] = {}

    apply_override(table, "run.system=1\nx = 2")

    assert table == {"run": {"system": "1\nx = 2"}}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("scheduler", "-o scheduler: expected key.path=value"),
        ("=3", "-o =3: expected key.path=value"),
        ("a..b=3", "expected key.path=value"),
        ("limit[2].x=1", "limit[2].x: the list has only 1"),
        ("limit.x=1", "limit.x: [{'use': 'a', 'x': 1}] has no place for 'x'"),
        ("scheduler[0]=1", "{'policy': 'fcfs'} has no place for 0"),
        ("scheduler.policy.x=1", "'fcfs' has no place for 'x'"),
    ],
)
def test_override_that_leads_nowhere_is_refused(toml, override, expected):
    with pytest.raises(ConfigError) as caught:
        load_config(toml, [override])

    assert expected in str(caught.value)


def test_message_names_file_and_overrides(toml):
    with pytest.raises(ConfigError) as caught:
        load_config(toml, ["scheduler.seed=-1"])

    expected = f"{toml} -o scheduler.seed=-1: scheduler.seed: expected a number >= 0, got -1"
    assert expected == str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read: No such file"):
        load_config(tmp_path / "gone.toml")


@pytest.mark.parametrize("content", [b"[scheduler", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000])
def test_file_that_is_no_toml_is_named(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=r"bad.toml: is not valid TOML: "):
        load_config(path)


def test_override_names_an_entry_of_a_list_by_its_number_as_well():
    """Dots reach everything: an entry that is there, and the one behind the last."""
    config = load_config(None, ["gate.1.use=watermark", "gate.1.fraction=0.5"])

    assert [use.name for use in config.gate] == ["full-need", "watermark"]
    assert config.gate[1].options == {"fraction": 0.5}


def test_lines_are_told_of_what_the_file_says_and_of_nothing_else(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(f"[scheduler]\nmax_num_seqs = {1 << 63}\n")
    with pytest.raises(ConfigError) as problem:
        load_config(toml)
    expected = f"{toml}:2: scheduler.max_num_seqs: expected an integer of 64 bits"
    assert str(problem.value) == expected
    toml.write_text('[kv]\nmemory = "1 GiB"\n[[gate]]\nuse = "watermark"\nfraction = 0.1\n')
    with pytest.raises(ConfigError) as problem:
        Assembly(load_config(toml, ["gate.0.fraction=9"]))
    assert str(problem.value).startswith(f"{toml} -o gate.0.fraction=9: gate[0].fraction: ")
    with pytest.raises(ConfigError) as problem:
        Assembly(load_config(toml)).scheduler()
    assert str(problem.value).startswith(f"{toml}:2: kv.memory: needs a model")
