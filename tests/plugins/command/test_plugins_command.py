"""``batchwright plugins`` lists what is there, and what is broken."""

from __future__ import annotations

import json

from click.testing import CliRunner

from batchwright.version import VERSION
from batchwright_plugins.command.plugins import PluginsCommand

PLUGIN = """
from attrs import frozen
from batchwright import Gate, hookimpl
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


def test_table_shows_kind_name_distribution_and_options():
    result = plugins()

    assert result.exit_code == 0
    rows = [line.split("│")[1:-1] for line in result.output.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert ["policy", "fcfs", f"batchwright {VERSION}", ""] in cells
    assert ["gate", "watermark", f"batchwright {VERSION}", "fraction = 0.01"] in cells


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


def test_narrow_table_shows_all_of_a_name_and_of_a_path(tmp_path):
    path = tmp_path / "a-folder-whose-name-is-long" / "mine.py"
    path.parent.mkdir()
    path.write_text(PLUGIN)
    toml = tmp_path / "run.toml"
    toml.write_text(f'[plugins]\nload = ["{path.parent.name}/mine.py"]\n')

    result = CliRunner().invoke(
        PluginsCommand().build(), ["--config", str(toml)], env={"COLUMNS": "80"}
    )

    rows = [line.split("│") for line in result.output.splitlines() if "│" in line]
    folded = "".join(row[3].strip() for row in rows)
    assert str(path) in folded
    assert "lowest-priority" in [row[2].strip() for row in rows]
    assert "…" not in result.output


def test_path_below_the_working_folder_is_shown_from_there(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "run.toml").write_text('[plugins]\nload = ["mine.py"]\n')
    monkeypatch.chdir(tmp_path)

    rows = [line.split("│") for line in plugins("--config", "run.toml").output.splitlines()]

    assert [row[3].strip() for row in rows if row[2:3] and "mine" in row[2]] == ["mine.py"]
