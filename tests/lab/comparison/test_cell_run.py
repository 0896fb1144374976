"""A cell is run in this process: what is recorded of requests, queue and service."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import attrs
import pytest

from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright_lab.comparison.cell import Cell
from batchwright_lab.comparison.cell_run import run_cell
from batchwright_lab.comparison.outcome import measure
from batchwright_lab.comparison.targets import Targets


def cell(policy: str = "fcfs", **sections: dict[str, object]) -> Cell:
    """Little memory and few seats, so that requests are preempted, pause and wait."""
    poisson = {
        "num_requests": 80, "num_clients": 3, "client_skew": 1.0, "rate": 60.0,
        "prompt": {"mean": 60.0, "most": 200}, "output": {"mean": 40.0, "most": 90},
        "prefixes": {"depth": 1, "branching": 2, "tokens": 32},
    }  # fmt: skip
    config = Config.from_dict(
        {
            "scheduler": {"policy": policy, "max_num_seqs": 12, "max_num_batched_tokens": 128},
            "kv": {"num_blocks": 80},
            "model": {"max_model_len": 512},
            "simulation": {"workload": "poisson"},
            "workload": {"poisson": poisson},
            **sections,
        }
    )
    return Cell(policy, "", None, 0, None, False, config)


@pytest.mark.parametrize("policy", ["fcfs", "mlfq", "srpt", "fair"])
def test_what_is_recorded_adds_up(policy: str) -> None:
    """Under policies that preempt, pause and release alike."""
    record = run_cell(cell(policy))
    requests, series = record["requests"], record["series"]
    assert record["fault"] is None
    assert len(requests["id"]) == 80
    assert sum(requests["preemptions"]) > 0
    assert min(series["waiting"]) == series["waiting"][-1] == series["running"][-1] == 0
    assert max(series["running"]) <= 12
    assert max(series["kv"]) <= 1.0
    for client, amounts in series["service"].items():
        rows = [index for index, name in enumerate(requests["client"]) if name == client]
        served = sum(
            requests["prompt_tokens"][i]
            - requests["cached_tokens"][i]
            + 2 * requests["output_tokens"][i]
            for i in rows
        )
        assert amounts == sorted(amounts)
        assert amounts[-1] == served
        assert min(series["backlog"][client]) == series["backlog"][client][-1] == 0
    waiting = [sum(counts) for counts in zip(*series["backlog"].values(), strict=True)]
    assert waiting == series["waiting"]


def test_figures_of_a_cell() -> None:
    record = run_cell(cell())
    figures = measure(record, Targets(), 60.0).figures
    requests = record["requests"]
    assert figures["attainment"] is figures["goodput"] is None
    assert figures["ended"] == figures["arrived"] == 80
    assert figures["preemptions"] == sum(requests["preemptions"])
    assert (
        figures["recompute_tax"] == sum(requests["recomputed_tokens"]) / record["scheduled_tokens"]
    )
    hits = sum(requests["cached_tokens"]) / sum(requests["prompt_tokens"])
    assert figures["hit_ratio"] == hits > 0
    assert figures["kv_peak"] == record["most_used_blocks"] / 79
    assert figures["passed_over_max"] == 0.0


def test_what_is_stopped_before_its_end_says_so() -> None:
    record = run_cell(cell(simulation={"workload": "poisson", "until": 1.0}))
    found = measure(record, Targets(), 60.0)
    figures = found.figures
    assert figures["unfinished"] == figures["arrived"] - figures["ended"] > 0
    assert figures["duration"] == pytest.approx(1.0, abs=0.1)
    assert found.notes == ("stopped before its end: 1 simulated seconds are over",)


def test_requests_that_a_gate_turns_away_are_told() -> None:
    gates = [{"use": "full-need"}, {"use": "queue-timeout", "seconds": 0.2}]
    config = attrs.evolve(cell().config, gate=Config.from_dict({"gate": gates}).gate)
    found = measure(run_cell(attrs.evolve(cell(), config=config)), Targets(), 60.0)
    assert found.fault == ""
    (note,) = found.notes
    assert note.startswith(f"{found.figures['failed']:.0f} of 80 requests were not served (")
    assert "without a first admission" in note


def test_what_cannot_begin_is_a_fault_of_its_cell() -> None:
    record = run_cell(cell(simulation={"workload": "poisson", "executor": "torch"}))
    assert record["fault"]["kind"] == "raised"
    assert measure(record, Targets(), 60.0).fault.startswith("raised: ")


def test_file_name_changes_with_whatever_matters() -> None:
    plugins, one = PluginManager.discover(), cell()
    names = [
        found.file_name(plugins)
        for found in (
            one,
            attrs.evolve(one, seed=1),
            attrs.evolve(one, rate=2.0),
            attrs.evolve(one, limit=5),
            attrs.evolve(one, checked=True),
            attrs.evolve(one, policy="other label"),
            cell("sjf"),
            cell(kv={"num_blocks": 81}),
        )
    ]
    assert len(set(names)) == len(names)
    assert names[0].startswith("fcfs_seed_0-")
    assert cell().file_name(plugins) == names[0]
    explicit = cell(kv={"num_blocks": 80, "block_size": 16})  # the default, said
    assert explicit.file_name(plugins) == names[0]


KIT = """
from batchwright.plugin import SchedulingPolicy, hookimpl

class Theirs(SchedulingPolicy):
    name = "theirs"

    def key(self, request):
        from kit_helpers_q import rank
        return rank(request)

@hookimpl
def batchwright_register_policy():
    return [Theirs]
"""


def test_file_name_changes_with_code_of_editable_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the package that offers a policy, and of those that it imports."""
    files = {"kit_q/__init__.py": KIT, "kit_q/part.py": "", "kit_helpers_q/__init__.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = PluginManager.discover(extra=[import_module("kit_q")])
    names = [cell("theirs").file_name(plugins)]
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n# edited")
        names.append(cell("theirs").file_name(plugins))
    assert len(set(names)) == 4
    assert names[3] == cell("theirs").file_name(plugins)


def test_file_name_changes_with_files_that_options_name(tmp_path: Path) -> None:
    """By default or not: coefficients of a measured estimator, a folder of a profile."""
    (tmp_path / "own").mkdir()
    plugins, names = PluginManager.discover(), []
    for name, estimator in (("measured.toml", "measured"), ("own/dense.csv", "table")):
        for text in ("1", "2"):
            (tmp_path / name).write_text(text)
            config = attrs.evolve(
                cell(
                    simulation={"workload": "poisson", "estimator": estimator},
                    estimator={"table": {"profile": "own"}},
                ).config,
                base_path=tmp_path,
            )
            names.append(attrs.evolve(cell(), config=config).file_name(plugins))
    assert len(set(names)) == 4
