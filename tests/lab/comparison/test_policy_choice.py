"""Values of ``--policy``."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright.exceptions import ConfigError, PluginError
from batchwright_lab.comparison.policy_choice import PolicyChoice, choose_policies

ONE = """
from batchwright.plugin import SchedulingPolicy, hookimpl


class Mine(SchedulingPolicy):
    name = "mine"

    def key(self, request):
        return 0


class Other(Mine):
    name = "other"


@hookimpl
def batchwright_register_policy():
    return [{}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "one.py"


def test_name_is_its_label() -> None:
    assert choose_policies(["fcfs"]) == [PolicyChoice("fcfs", "fcfs")]


def test_label_may_be_given() -> None:
    assert choose_policies(["base=fcfs"]) == [PolicyChoice("base", "fcfs")]


def test_file_with_one_policy_needs_no_name(file: Path) -> None:
    file.write_text(ONE.format("Mine"))
    assert choose_policies([str(file)]) == [PolicyChoice("mine", "mine", file)]
    assert choose_policies([f"my={file}"]) == [PolicyChoice("my", "mine", file)]


def test_file_with_two_policies_needs_a_name(file: Path) -> None:
    file.write_text(ONE.format("Mine, Other"))
    assert choose_policies([f"{file}:other"]) == [PolicyChoice("other", "other", file)]
    with pytest.raises(ConfigError, match=r"offers 2 policies; name one: FILE.py:mine or FILE"):
        choose_policies([str(file)])
    with pytest.raises(ConfigError, match=r"offers no policy 'othr'. Did you mean 'other'\?"):
        choose_policies([f"{file}:othr"])


def test_file_without_a_policy_is_refused(file: Path) -> None:
    file.write_text(ONE.format(""))
    with pytest.raises(ConfigError, match="offers no policy: batchwright_register_policy"):
        choose_policies([str(file)])


@pytest.mark.parametrize("text", ["", "my=", "=fcfs", "a b=fcfs"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--policy .*expected NAME, FILE.py or FILE.py:NAME"):
        choose_policies([text])


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(PluginError, match=r"--policy: there is no policy 'fcsf'. Did you mean"):
        choose_policies(["fcsf"])


def test_broken_file_is_refused(file: Path) -> None:
    with pytest.raises(PluginError, match="does not exist"):
        choose_policies([str(file)])
    file.write_text("1 / 0")
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        choose_policies([str(file)])


def test_labels_are_unique() -> None:
    with pytest.raises(ConfigError, match="two are called 'fcfs'"):
        choose_policies(["fcfs", "fcfs"])
