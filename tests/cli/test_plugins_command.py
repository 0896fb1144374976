"""``batchwright plugins`` lists what is there, and what is broken."""

from __future__ import annotations

import json

from click.testing import CliRunner

from batchwright_cli.commands.plugins import PluginsCommand

PLUGIN = """
from attrs import frozen
from batchwright.plugin import Gate, hookimpl
from batchwright.option import option

@frozen
class Options:
    fraction: float = option(0.25, "Share kept free.", ge=0, lt=1)
    limit: int | None = option(None, "Most requests.", unit="requests")

class Mine(Gate):
    name = "mine"
    Options = Options

@hookimpl
def batchwright_register_gate():
    return [Mine]
"""


def plugins(*arguments: str):
    return CliRunner().invoke(PluginsCommand().build(), arguments, env={"COLUMNS": "160"})


def test_each_component_is_a_line_under_its_kind():
    lines = plugins("gate").output.splitlines()

    assert lines[0] == "gate"
    (watermark,) = (line for line in lines if line.startswith("  watermark "))
    assert watermark.endswith(".")
    assert all(line.startswith("  ") for line in lines[1:])
    assert not {*"│┃━"} & {*plugins().output}


def test_one_component_has_its_options_and_their_help(install_distribution):
    install_distribution("bw-mine", "3.0", entry_points={"mine": "bw_mine_one"}, bw_mine_one=PLUGIN)

    lines = plugins("gate", "mine").output.splitlines()

    assert lines[0] == "gate mine, from bw-mine 3.0"
    assert lines[-4:] == [
        "  fraction = 0.25  (a number, >= 0 and < 1)",
        "      Share kept free.",
        "  limit = none  (an integer, requests)",
        "      Most requests.",
    ]


def test_unknown_kinds_are_refused_with_the_choices():
    result = plugins("gates")

    assert result.exit_code == 2
    assert "there is no kind 'gates'. Did you mean 'gate'? Kinds: attention," in result.output


def test_json_has_every_detail(install_distribution):
    install_distribution(
        "bw-mine", "3.0", entry_points={"mine": "bw_mine_gate"}, bw_mine_gate=PLUGIN
    )

    listed = json.loads(plugins("--json").output)

    (mine,) = (c for c in listed["components"] if c["name"] == "mine")
    assert mine == {
        "plugin": "mine",
        "module": "bw_mine_gate",
        "distribution": "bw-mine",
        "version": "3.0",
        "path": None,
        "kind": "gate",
        "name": "mine",
        "class": "Mine",
        "options": [
            {
                "name": "fraction",
                "type": "a number, >= 0 and < 1",
                "default": "0.25",
                "help": "Share kept free.",
            },
            {
                "name": "limit",
                "type": "an integer, requests",
                "default": "",
                "help": "Most requests.",
            },
        ],
    }


def test_broken_plugins_are_listed_with_their_error(install_distribution):
    install_distribution(
        "bw-bad", "0.1", entry_points={"bad": "bw_bad_listed"}, bw_bad_listed="1 / 0"
    )

    table, listed = plugins(), json.loads(plugins("--json").output)

    assert table.exit_code == 0
    assert "plugin 'bad' (bw-bad 0.1): cannot be imported: ZeroDivisionError" in table.output
    (fault,) = (fault for fault in listed["broken"] if fault["plugin"] == "bad")
    assert (fault["distribution"], fault["version"]) == ("bw-bad", "0.1")
    assert fault["message"].startswith("cannot be imported: ZeroDivisionError: division by zero")


def test_config_adds_its_files_and_heeds_its_disable(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "bad.py").write_text("1 / 0")
    toml = tmp_path / "run.toml"
    toml.write_text('[plugins]\nload = ["mine.py", "./bad.py"]\ndisable = ["policy"]\n')

    listed = json.loads(plugins("--json", "--config", str(toml)).output)

    (mine,) = (c for c in listed["components"] if c["name"] == "mine")
    assert str(tmp_path / "mine.py") == mine["path"]
    assert None is mine["distribution"]
    assert "bad" in [fault["plugin"] for fault in listed["broken"]]
    assert "policy" not in [component["kind"] for component in listed["components"]]


def test_path_below_the_working_folder_is_shown_from_there(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "run.toml").write_text('[plugins]\nload = ["mine.py"]\n')
    outside = plugins("gate", "--config", str(tmp_path / "run.toml")).output
    monkeypatch.chdir(tmp_path)

    inside = plugins("gate", "--config", "run.toml").output

    assert f"({tmp_path / 'mine.py'})" in outside
    assert "(mine.py)" in inside
