"""Every reader with a sample that it takes, and what it does with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from batchwright import ConfigError, SamplingParams, VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config, load_config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import StepShape
from batchwright_cli.commands.explain import ExplainCommand
from batchwright_cli.commands.timeline import TimelineCommand
from batchwright_engine.answering.prompt_file import read_prompts
from batchwright_engine.chat import normalize_messages
from batchwright_lab.calibration.calibration import calibrate
from batchwright_lab.comparison.archive import Archive
from batchwright_lab.comparison.outcome import measure
from batchwright_lab.comparison.targets import Targets
from batchwright_lab.replay.replayed_run import ReplayedRun
from batchwright_lab.sections import true_estimator
from batchwright_lab.workload.chosen_workload import choose_workload

from . import samples

__all__ = ["TARGETS", "Target"]

WHOLE = (
    r"holds no (request|prompt|chunk)|is UTF-(16|32); save|is compressed|too few to fit"
    r"|is no decision log|is a decision log of version|cannot be replayed|cannot be read"
    r"|has chunk-\d+-trace\.csv, but no|is recognized by|there is no request"
)
"""What is said of a file as a whole, without a line."""


@frozen
class Target:
    """A reader.

    Args:
        name: What is read.
        files: A valid sample, by name of the file.
        form: Of the files, for mutations; by suffix where it is empty.
        run: Reads the files of a folder, and uses what it has read.
        has_lines: Whether a problem has a line, as a rule.
    """

    name: str
    files: Callable[[], Mapping[str, bytes]]
    run: Callable[[Path], None]
    form: str = ""
    has_lines: bool = True

    def form_of(self, file: str) -> str:
        """The form of one of the files."""
        return self.form or Path(file).suffix[1:] or "text"

    def problem(self, message: str) -> str:
        """Return the missing part of an error; empty if it has its place."""
        if message != message.encode(errors="replace").decode():
            return "the message cannot be written"
        names = [name for name in self.files() if name in message]
        if not names:
            return "the file is not named"
        is_line = re.search(rf"{re.escape(names[0])}:\d+|\(at line \d+|\(at end of", message)
        has_lines = self.has_lines and not names[0].endswith(".toml")
        if has_lines and not is_line and not re.search(WHOLE, message):
            return "the line is not named"
        return ""


@cache
def _plugins() -> PluginManager:
    return PluginManager.discover()


def _assembly(table: dict[str, Any], folder: Path) -> Assembly:
    config = Config.from_dict(table, base_path=folder)
    return Assembly(config, plugins=_plugins(), clock=VirtualClock())


def _workload(name: str, file: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        table = {"simulation": {"workload": name}, "workload": {name: {"path": file}}}
        assembly = _assembly(table, folder)
        workload: Any = assembly.make(assembly.config.once("workload"))
        arrivals = list(islice(workload.arrivals(), 50))
        assert arrivals or name == "servegen"
        for arrival, following in pairwise(arrivals):
            assert 0 <= arrival.time <= following.time < float("inf")
        assert all(len(arrival.prompt_token_ids) >= 1 for arrival in arrivals)
        assert workload.rate is None or workload.rate > 0
        assert workload.max_output_tokens >= 1

    return run


def _trace(name: str) -> Callable[[Path], None]:
    """Read a trace by its name, after its format was looked for."""
    read = _workload(name, "trace")

    def run(folder: Path) -> None:
        with suppress(ConfigError):
            choose_workload(Config(), str(folder / "trace"), _plugins())
        read(folder)

    return run


def _estimator(table: dict[str, Any]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        assembly = _assembly(table, folder)
        estimator: Any = assembly.make(true_estimator(assembly.config))
        shape = StepShape.of([(1, 100), (1, 30), (64, 0)])
        assert 0 <= estimator.step_time(shape) < float("inf")
        assert estimator.max_tokens(0.05, shape) >= 0
        assert 0 <= next(estimator.decode_times(4, 100)) < float("inf")

    return run


def _toml(folder: Path) -> None:
    load_config(folder / "run.toml")


def _prompts(name: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        for line in read_prompts(folder / name, SamplingParams()):
            messages = line.source.get("messages")
            assert messages is None or normalize_messages(messages)

    return run


def _explain(folder: Path) -> None:
    path = folder / "log.jsonl"
    for arguments in (["--waiting"], ["2"]):
        _invoke(ExplainCommand().build(), [*arguments, "--log", str(path)])


def _timeline(folder: Path) -> None:
    outputs = ["--perfetto", str(folder / "out.json"), "--svg", str(folder / "out.svg")]
    _invoke(TimelineCommand().build(), [str(folder / "log.jsonl"), *outputs])


def _invoke(command: click.Command, arguments: list[str]) -> None:
    """Run a command; what it says of a log that it could read is no problem."""
    try:
        command.main(arguments, standalone_mode=False)
    except click.ClickException as error:
        if not re.search(r"no request|nothing happens in that window", str(error)):
            raise


def _calibrate(folder: Path) -> None:
    found = calibrate(folder / "log.jsonl")
    assert all(0 <= value < float("inf") for value in found.coefficients)
    assert list(found.rows())


def _replay(folder: Path) -> None:
    path = folder / "log.jsonl"
    run = ReplayedRun(path, None, log=folder / "again.jsonl")
    header = samples.log().partition(b"\n")[0]
    if path.read_bytes().startswith(header + b"\n"):  # else it is another run, of any size
        try:
            run.run()
        except click.ClickException as error:
            if not re.search(r"cannot be repeated|is off by", str(error)):
                raise


def _cell(folder: Path) -> None:
    class Only(Archive):
        def path(self, cell: Any) -> Path:
            return folder / "cell.json"

    class Nowhere:
        def coordinates(self) -> dict[str, Any]:
            return {"policy": "fcfs", "variation": "", "rate": 1.0, "seed": 0}

    cell: Any = Nowhere()
    record = Only(folder).read(cell)
    if record is not None:
        outcome = measure(record, Targets({None: {"ttft": 1.0}}), 5.0)
        if outcome.fault:  # it is reported as a cell without a result
            raise ConfigError(outcome.fault)


def _of(**files: bytes) -> Callable[[], Mapping[str, bytes]]:
    return lambda: files


def _log() -> Mapping[str, bytes]:
    return {"log.jsonl": samples.log()}


_TRACES = {
    "azure": (samples.AZURE, "csv"),
    "burstgpt": (samples.BURSTGPT, "csv"),
    "mooncake": (samples.MOONCAKE, "jsonl"),
    "jsonl": (samples.JSONL, "jsonl"),
    "sharegpt": (samples.SHAREGPT, "json"),
}

TARGETS = [
    Target("toml", lambda: {"run.toml": samples.CONFIG}, _toml, has_lines=False),
    Target("prompts", lambda: {"prompts.jsonl": samples.PROMPTS}, _prompts("prompts.jsonl")),
    Target("text prompts", lambda: {"p.txt": samples.TEXTS}, _prompts("p.txt")),
    *(Target(name, _of(trace=data), _trace(name), form) for name, (data, form) in _TRACES.items()),
    Target("servegen", lambda: samples.SERVEGEN, _workload("servegen", ".")),
    *(
        Target(
            f"servegen tar{suffix and '.'}{suffix}",
            cache(lambda suffix=suffix: {"all": samples.archive(suffix)}),
            _workload("servegen", "all"),
            "binary",
            has_lines=False,
        )
        for suffix in ("", "gz", "xz")
    ),
    Target(
        "linear profile",
        lambda: {"linear.toml": samples.LINEAR},
        _estimator(
            {"simulation": {"estimator": "linear"}, "estimator": {"linear": {"profile": "."}}}
        ),
        has_lines=False,
    ),
    Target(
        "measured profile",
        lambda: {"measured.toml": samples.LINEAR},
        _estimator({"simulation": {"estimator": "measured"}}),
        has_lines=False,
    ),
    Target(
        "table profile",
        lambda: samples.CSV_PROFILE,
        _estimator(
            {"simulation": {"estimator": "table"}, "estimator": {"table": {"profile": "."}}}
        ),
    ),
    Target("log, explained", _log, _explain),
    Target("log, drawn", _log, _timeline),
    Target("log, calibrated", _log, _calibrate),
    Target("log, replayed", _log, _replay),
    Target("cell", lambda: {"cell.json": samples.cell()}, _cell, has_lines=False),
]
