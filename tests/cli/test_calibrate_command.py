"""``batchwright calibrate``: coefficients of step times, from a decision log."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchwright_cli.main import CommandGroup, main
from batchwright_lab.calibration.fitting import fit

TRUTH = {
    "base": 0.011,
    "per_token": 2.5e-5,
    "per_context_token": 9e-8,
    "per_attention": 3e-9,
    "per_request": 4e-5,
}
CONFIG = "[kv]\nnum_blocks = 300\n[scheduler]\nmax_num_seqs = 16\n[estimator.linear]\n" + "".join(
    f"{name} = {value}\n" for name, value in TRUTH.items()
)


def run(*arguments: str) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, list(arguments))


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A folder with a configuration and the decision log of a simulation of it."""
    config = tmp_path / "run.toml"
    config.write_text(CONFIG)
    done = run("simulate", "--config", str(config), "--workload", "poisson", "--rate", "9",
               "--limit", "60", "-o", "workload.poisson.output.mean=40",
               "--output", str(tmp_path), "--steps")  # fmt: skip
    assert done.exit_code == 0, done.output
    return tmp_path


def test_coefficients_of_a_simulation_are_found_again(logged: Path) -> None:
    """Chunks, preemptions and pauses are in it, and are seen through."""
    done = run("calibrate", str(logged / "run.toml"), "--log", str(logged / "steps.jsonl"))
    assert done.exit_code == 0, done.output
    found = tomllib.loads((logged / "measured.toml").read_text())
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in TRUTH.items()}
    assert "median error of a step  0.0%" in done.output
    assert f"written to {logged / 'measured.toml'}" in done.output


def test_what_is_written_can_be_simulated(logged: Path) -> None:
    run("calibrate", str(logged / "run.toml"), "--log", str(logged / "steps.jsonl"))
    done = run("simulate", "--config", str(logged / "run.toml"), "--workload", "constant",
               "--limit", "5", "-o", "simulation.estimator=measured")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "step times by 'measured'" in done.output


@pytest.mark.parametrize("text", ["", "{}\n", "no log\n"])
def test_what_is_no_log_is_refused(text: str, logged: Path) -> None:
    (logged / "other.jsonl").write_text(text)
    done = run("calibrate", str(logged / "run.toml"), "--log", str(logged / "other.jsonl"))
    assert done.exit_code == 2
    assert "other.jsonl: is no decision log" in done.output


def test_too_few_steps_are_said(logged: Path) -> None:
    head = (logged / "steps.jsonl").read_text().splitlines(keepends=True)[:4]
    (logged / "short.jsonl").write_text("".join(head))
    done = run("calibrate", str(logged / "run.toml"), "--log", str(logged / "short.jsonl"))
    assert done.exit_code == 2
    assert "steps are too few to fit anything to" in done.output


def test_fit_leaves_outliers_out() -> None:
    rows = [(1.0, float(n)) for n in range(40)]
    values = [2.0 + 0.5 * n for n in range(40)]
    values[7] = 90.0  # the machine did something else
    found, kept = fit(rows, values)
    assert found == [pytest.approx(2.0), pytest.approx(0.5)]
    assert kept == [n for n in range(40) if n != 7]


def test_fit_has_no_negative_coefficients() -> None:
    rows = [(1.0, float(n), float(n * n)) for n in range(1, 30)]
    values = [5.0 + 3.0 * n - 0.01 * n * n for n in range(1, 30)]
    found, _ = fit(rows, values)
    assert min(found) >= 0
    assert found[2] == 0.0


def test_what_rows_leave_open_is_nothing() -> None:
    assert fit([(1.0, 1.0)] * 4, [4.0] * 4)[0] == [pytest.approx(4.0), 0.0]
    assert fit([(0.0, 2.0)] * 4, [4.0] * 4)[0] == [0.0, pytest.approx(2.0)]


def test_numbers_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond what can be computed with"):
        fit([(1.0, 1e308), (1.0, 2.0)], [1e-10, 1.0])


def test_without_scipy_nothing_is_fitted_and_the_extra_is_named(
    logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    done = run("calibrate", str(logged / "run.toml"), "--log", str(logged / "steps.jsonl"))
    assert done.exit_code == 1
    assert "no fit without scipy; run: pip install -e '.[lab]'" in done.output
