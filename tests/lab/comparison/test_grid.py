"""Contenders of a grid: options that concern one policy, files that the TOML loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchwright.exceptions import ConfigError
from batchwright_lab.comparison.grid import Grid, plan_grid

MINE = """
from batchwright.plugin import SchedulingPolicy, hookimpl
from batchwright.option import option
from attrs import frozen


@frozen
class Options:
    aging: float = option(0.0, "How fast.")


class Mine(SchedulingPolicy):
    name = "mine"
    Options = Options

    def key(self, request):
        return request.num_prompt_tokens


@hookimpl
def batchwright_register_policy():
    return [Mine]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "plain.toml").write_text('[simulation]\nworkload = "poisson"\n')
    (tmp_path / "loads.toml").write_text(
        '[plugins]\nload = ["mine.py"]\n[simulation]\nworkload = "poisson"\n'
    )
    return tmp_path


def grid(config: Path, *policies: str, overrides: tuple[str, ...] = (), **given: Any) -> Grid:
    options: dict[str, Any] = {
        "vary": (), "workload": None, "rates": None, "num_seeds": 1, "limit": None, **given,
    }  # fmt: skip
    return plan_grid(config, overrides, policies=policies, checked=False, **options)


def aging(found: Grid) -> list[Any]:
    return [cell.config.options.get("policy", {}).get("mine") for cell in found.cells]


def test_policies_of_files_that_the_configuration_loads_can_be_named(folder: Path) -> None:
    found = grid(folder / "loads.toml", "fcfs", "mine")
    assert found.contenders == (("fcfs", ""), ("mine", ""))
    assert [cell.config.plugins.load for cell in found.cells] == [("mine.py",)] * 2


def test_options_of_one_policy_leave_the_others_alone(folder: Path) -> None:
    file = str(folder / "mine.py")
    found = grid(folder / "plain.toml", "fcfs", file, overrides=("policy.mine.aging=3",))
    assert aging(found) == [None, {"aging": 3}]


def test_values_of_an_option_run_with_the_policy_that_has_it_alone(folder: Path) -> None:
    vary = ("policy.mine.aging=1,2", "scheduler.max_num_seqs=8,9")
    found = grid(folder / "plain.toml", "fcfs", str(folder / "mine.py"), vary=vary)
    assert found.contenders == (
        ("fcfs", "max_num_seqs=8"),
        ("fcfs", "max_num_seqs=9"),
        ("mine", "aging=1, max_num_seqs=8"),
        ("mine", "aging=1, max_num_seqs=9"),
        ("mine", "aging=2, max_num_seqs=8"),
        ("mine", "aging=2, max_num_seqs=9"),
    )
    assert aging(found) == [None, None, *[{"aging": 1}] * 2, *[{"aging": 2}] * 2]


def test_options_of_policies_that_do_not_take_part_are_refused(folder: Path) -> None:
    file = str(folder / "mine.py")
    with pytest.raises(ConfigError, match=r"no policy that takes part is 'mien'. Did you mean 'm"):
        grid(folder / "plain.toml", "fcfs", file, vary=("policy.mien.aging=1,2",))
    with pytest.raises(ConfigError, match="there is no policy 'mien'"):
        grid(folder / "plain.toml", "fcfs", file, overrides=("policy.mien.aging=1",))
    with pytest.raises(ConfigError, match=r"policy\.mine\.agin"):
        grid(folder / "plain.toml", "fcfs", file, vary=("policy.mine.agin=1,2",))
