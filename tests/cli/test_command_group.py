"""The command line: lists commands lazily, ends cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from batchwright.version import VERSION
from batchwright_cli.main import CommandGroup, main

COMMAND = """
import click
from batchwright import ModelError
from batchwright.plugin import Command, hookimpl

class Hello(Command):
    name = "{name}"
    help = "Greets."

    def build(self):
        @click.command()
        @click.option("--fail", is_flag=True)
        def hello(fail):
            if fail:
                raise {error}
            click.echo("hello")
        return hello

@hookimpl
def batchwright_register_command():
    return [Hello]
"""


def command(name: str, error: str = 'ModelError("no such model")') -> str:
    return COMMAND.format(name=name, error=error)


def run(*arguments: str, **environment: str) -> object:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, arguments, env=environment)


def test_help_lists_commands_with_their_help(install_distribution):
    install_distribution("bw-hello", entry_points={"hello": "bw_hello"}, bw_hello=command("hello"))

    result = run("--help")

    assert result.exit_code == 0
    assert "config     Show or check a configuration." in result.output
    assert "hello      Greets." in result.output
    assert "faults" not in result.output.replace("defaults", "")


def test_command_of_a_third_party_runs(install_distribution):
    install_distribution(
        "bw-hello", entry_points={"hello": "bw_hello2"}, bw_hello2=command("hello")
    )

    assert run("hello").output == "hello\n"


def test_version_is_shown():
    assert f"batchwright, version {VERSION}\n" == run("--version").output


def test_unknown_command_suggests_and_ends_with_2():
    result = run("plugin")

    assert result.exit_code == 2
    assert "there is no command 'plugin'. Did you mean 'plugins'? Choices: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulate", "a.toml"], "(a.toml). Give the TOML file as --config FILE\n"),
        (["run", "--config", "a.toml"], "Give the TOML file alone: batchwright run CONFIG\n"),
        (["config", "check", "--config", "a.toml"], "alone: batchwright config check FILE\n"),
        (["simulate", "a.csv"], "(a.csv)\n"),
        (["new", "--config", "a.toml"], "No such option '--config'.\n"),
    ],
)
def test_says_how_a_command_takes_its_toml_file(arguments, said):
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stderr.endswith(said)


def test_broken_plugin_is_pointed_out_and_stops_nothing(install_distribution):
    install_distribution(
        "bw-bad", entry_points={"bad": "bw_bad_cli"}, bw_bad_cli="raise ValueError('bad')"
    )

    assert "1 fault in plugins: see `batchwright plugins`." in run("--help").output
    assert run("config", "show").exit_code == 0
    assert "ValueError: bad" in run("hello").stderr


def test_command_offered_twice_is_refused_when_it_is_called(install_distribution):
    install_distribution("bw-mine", entry_points={"mine": "bw_mine"}, bw_mine=command("plugins"))

    result = run("plugins")

    assert result.exit_code == 2
    assert "the command 'plugins' is offered by batchwright_cli.commands" in result.stderr
    assert "(bw-mine 1.0)" in result.stderr
    assert run("config", "show").exit_code == 0


@pytest.mark.parametrize("place", ["option", "environment"])
def test_error_ends_without_traceback_unless_debugging(install_distribution, place):
    install_distribution(
        "bw-hello", entry_points={"hello": "bw_hello3"}, bw_hello3=command("hello")
    )

    plain = run("hello", "--fail")

    assert (plain.exit_code, plain.stderr) == (2, "Error: no such model\n")
    assert isinstance(plain.exception, SystemExit)
    if place == "option":
        debugged = run("--debug", "hello", "--fail")
    else:
        debugged = run("hello", "--fail", BATCHWRIGHT_DEBUG="1")
    assert type(debugged.exception).__name__ == "ModelError"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ('OSError(28, "No space left on device")', "Error: No space left on device\n"),
        ('OSError(13, "Permission denied", "x.csv")', "Error: x.csv: Permission denied\n"),
    ],
)
def test_what_the_system_refuses_ends_without_traceback(install_distribution, error, said):
    source = command("hello", error)
    name = f"bw_hello_{len(said)}"
    install_distribution("bw-hello", entry_points={"hello": name}, **{name: source})

    plain = run("hello", "--fail")

    assert (plain.exit_code, plain.stderr) == (1, said)
    assert isinstance(run("--debug", "hello", "--fail").exception, OSError)


def test_configuration_error_ends_with_2():
    result = run("config", "show", "-o", "scheduler.seed=-1")

    assert result.exit_code == 2
    assert result.stderr.endswith("scheduler.seed: expected a number >= 0, got -1\n")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment
    )


def test_module_runs_as_a_program():
    result = _python("-m", "batchwright", "--version")

    assert (0, f"batchwright, version {VERSION}\n") == (result.returncode, result.stdout)


@pytest.mark.parametrize("statement", ["import batchwright", "main(['--help'])"])
def test_nothing_heavy_is_imported(statement):
    code = (
        "import atexit, sys\n"
        "heavy = {'torch', 'transformers', 'xformers', 'uvicorn', 'numpy', 'cattrs'}\n"
        "atexit.register(lambda: print('heavy:', sorted(heavy & set(sys.modules))))\n"
    )
    if statement.startswith("main"):
        code += "from batchwright_cli.main import main\n"

    assert "heavy: []" in _python("-c", code + statement).stdout


def test_help_imports_little():
    """The commands themselves, and nothing of the packages that do their work."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('loaded:', *sorted(sys.modules)))\n"
        "from batchwright_cli.main import main\n"
        "main(['--help'])\n"
    )
    loaded = _python("-c", code).stdout.partition("loaded: ")[2].split()
    ours = {name for name in loaded if name.startswith("batchwright_")}
    others = {name for name in ours if not name.startswith("batchwright_cli")}
    assert others == {"batchwright_engine", "batchwright_engine.signals"}
    assert len(loaded) < 400
