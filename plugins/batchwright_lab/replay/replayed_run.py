"""One call of ``batchwright replay``: from a log to another one, and what changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from batchwright.clock import VirtualClock
from batchwright.config import Config, Use
from batchwright.default_plugins import AUTO, DEFAULT_VICTIM
from batchwright.exceptions import ConfigError, PluginError
from batchwright.hookspecs import hookimpl
from batchwright.plugin_manager import PluginManager
from batchwright_engine.signals import catching
from batchwright_lab.calibration.step_times import step_times
from batchwright_lab.recording.log_file import follow_log
from batchwright_lab.recording.recording import Recording
from batchwright_lab.replay.handover import HANDOVER, HandoverPolicy, HandoverVictim
from batchwright_lab.replay.replay_drive import ReplayDrive
from batchwright_lab.replay.replay_pace import ReplayPace
from batchwright_lab.replay.replayed_executor import ReplayedExecutor
from batchwright_lab.sections import true_estimator
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_plugins.config_file import apply_override
from batchwright_plugins.metrics import percentile

if TYPE_CHECKING:
    from batchwright.protocols import Estimator, Executor, Observer, SchedulingPolicy, Victim

__all__ = ["MOST_ERROR", "ReplayedRun"]

MOST_ERROR: Final = 0.25
"""Median relative error on recorded steps over which an estimator is not believed."""


class _Parts:
    """Plugins of replays alone: an executor, an observer, handovers."""

    @hookimpl
    def batchwright_register_executor(self) -> Sequence[type[Executor]]:
        return [ReplayedExecutor]

    @hookimpl
    def batchwright_register_observer(self) -> Sequence[type[Observer]]:
        return [ReplayPace]

    @hookimpl
    def batchwright_register_policy(self) -> Sequence[type[SchedulingPolicy]]:
        return [HandoverPolicy]

    @hookimpl
    def batchwright_register_victim(self) -> Sequence[type[Victim]]:
        return [HandoverVictim]


class ReplayedRun:
    """A recorded run, repeated under another policy.

    Args:
        path: The log.
        policy: ``NAME``, or ``NAME=FILE`` for one in a single file; None: the recorded one.
        from_step: The first step that it decides.
        overrides: ``key.path=value`` each, of the recorded configuration.
        log: The new log.
        trusts: True if an estimator is believed that does not fit the recorded steps.
        trusts_plugins: True if the Python files that the log names are run.
        plugins: Modules or objects with hooks, beside those that are installed.

    Attributes:
        recording: The recorded run.
        config: The configuration that repeats it.
        policy: Name of the policy that decides.
        drive: The drive of the run, once it has ended.
        pace: Its differences, once it has run.
        seconds: Time of the replay (seconds).
        num_steps: Steps of the repeated run.
        handovers: The policy and the victim that consist of two each, if there are any.

    Raises:
        ClickException: It has no such step.
        ConfigError: The log cannot be read or lacks what a replay needs, or the configuration
            that is recorded, or an override, cannot be used.
    """

    def __init__(
        self,
        path: Path,
        policy: str | None,
        *,
        from_step: int = 0,
        overrides: Sequence[str] = (),
        log: Path,
        trusts: bool = False,
        trusts_plugins: bool = False,
        plugins: Sequence[object] = (),
    ) -> None:
        self.recording = Recording(path)
        missing = list(self.recording.missing())
        if missing:
            problem = f"cannot be replayed; it lacks {', '.join(missing)}"
            raise ConfigError(problem, source=str(path))
        if from_step >= len(self.recording.times):
            raise click.ClickException(
                f"{path}: --from-step {from_step}: the log has {len(self.recording.times)} "
                "steps, from 0 on"
            )
        self.policy, _, file = (policy or self.recording.policy).partition("=")
        self.from_step = from_step
        self.log = log
        self.is_changed = self.policy != self.recording.policy or bool(overrides)
        self._is_overridden = bool(overrides)
        self._trusts = trusts
        self._extra = (*plugins, _Parts())
        self._trusts_plugins = trusts_plugins
        self.config = self._configure(overrides, file)

    def run(self) -> None:
        """Repeat it.

        Raises:
            ClickException: It differs from the recorded run before it may, or it is not known
                how long steps take that differ.
            ConfigError: The configuration that is recorded cannot be used.
            PluginError: A component cannot be had, or failed too often in a row.
        """
        begin = time.perf_counter()
        plugins = self._discover(self.config)
        assembly = SimulatorAssembly(self.config, plugins=plugins, clock=VirtualClock())
        self.estimator: Estimator = assembly.make(true_estimator(self.config))
        self.error = _error(self.recording.path, self.estimator)
        self._check_estimator()
        engine = assembly.simulator()
        executor: Any = engine.executor
        observers: dict[str, Any] = {o.name: o for o in engine.scheduler.components.observers}
        self.pace: ReplayPace = observers[ReplayPace.name]
        self.pace.follow(self.recording, executor)
        self.drive = ReplayDrive(engine, executor, self.pace, self.recording)
        components = engine.scheduler.components
        self.handovers: list[Any] = [
            part for part in (components.policy, components.victim) if part.name == HANDOVER
        ]
        try:
            with catching(self.drive.stop):
                self.drive.run()
        except PluginError as error:
            self._check_handovers(error)
            raise
        finally:
            engine.close()
        self.num_steps: int = engine.scheduler.view.step_id
        self.num_estimated: int = executor.num_estimated
        self.seconds = time.perf_counter() - begin
        self._check_repeated()

    def written(self) -> Recording:
        """The new log, read back.

        Raises:
            ClickException: It is not the whole run.
        """
        written = Recording(self.log)
        num_steps = min(len(written.times), self.pace.num_steps)
        if num_steps < self.num_steps:
            raise click.ClickException(
                f"{self.log} has {num_steps:,} of {self.num_steps:,} steps: an observer failed. "
                "Is the disk full?"
            )
        return written

    def _check_estimator(self) -> None:
        error = self.error
        if error is None or error <= MOST_ERROR or self._trusts or not self.is_changed:
            return
        raise click.ClickException(
            f"steps that differ from the recorded ones need an estimator, and "
            f"{self.estimator.name!r} is off by {error:.0%} (median) on the recorded ones. Fit "
            f"one: `batchwright calibrate CONFIG --log {self.recording.path}` writes measured.toml "
            "beside CONFIG, and -o simulation.estimator=measured takes it from there; or "
            "--trust-estimator takes this one as it is"
        )

    def _check_repeated(self) -> None:
        """Refuse a run that is not repeated where it should be."""
        difference = self.pace.difference
        if difference is None or difference.recorded is None:
            return
        if not self.is_changed or difference.step < self.from_step:
            self._check_handovers(None)
            now, before = difference.replayed, difference.recorded
            why = "Do other versions decide, or other files than those it loaded?"
            if self._is_overridden:
                why = "What -o changes holds from step 0 on: leave out -o, or --from-step"
            raise click.ClickException(
                f"the recorded run cannot be repeated: at step {difference.step} it "
                f"{'; '.join(before.told(now))}; repeated, it {'; '.join(now.told(before))}. {why}"
            )

    def _check_handovers(self, error: PluginError | None) -> None:
        """Name the component that failed, not the handover around it."""
        problem = next((part.problem for part in self.handovers if part.problem), "")
        if problem:
            raise click.ClickException(
                f"up to step {self.from_step} one policy decides and the other one watches, and "
                f"that cannot be: {problem}. Leave out --from-step, and it decides alone"
            ) from error

    def _check_plugins(self, table: Mapping[str, Any]) -> None:
        """Refuse to run Python because a log says so.

        Args:
            table: The recorded configuration, overridden.

        Raises:
            ConfigError: It loads files that the log names.
        """
        files, recorded = _files(table), _files(self.recording.header["config"])
        listed = ", ".join(str(file) for file in files if file in recorded)
        if not listed or self._trusts_plugins:
            return
        folder = self.recording.path.parent / str(self.recording.header.get("folder", "."))
        raise ConfigError(
            f"the run loaded Python files, which a replay would run again: {listed} "
            f"(from {folder}). Look at them; if you trust them, add --trust-plugins",
            path="plugins.load",
            source=f"the configuration in {self.recording.path}",
        )

    def _configure(self, overrides: Sequence[str], file: str) -> Config:
        header = self.recording.header
        table: dict[str, Any] = {**header["config"]}
        for override in overrides:
            apply_override(table, override)
        self._check_plugins(table)
        table.setdefault("scheduler", {})
        first = table["scheduler"].get("policy", self.recording.policy)
        table["scheduler"] = {**table["scheduler"], "policy": self.policy}
        table["simulation"] = {**table.get("simulation", {}), "executor": ReplayedExecutor.name}
        if file:
            plugins = table.get("plugins", {})
            load = [*plugins.get("load", ()), str(Path(file).expanduser().resolve())]
            table["plugins"] = {**plugins, "load": load}
        config = Config.from_dict(
            table,
            base_path=self.recording.path.parent / header.get("folder", "."),
            source=f"the configuration in {self.recording.path}:1",
        )
        if self.from_step and self.policy != first:
            config = self._hand_over(config, first)
        log = {"path": str(self.log.resolve()), "block_ids": self.recording.lists_blocks}
        observers = (
            Use("observer", ReplayPace.name, ReplayPace.name),
            Use("observer", "decision-log", "observer.decision-log", options=log),
        )
        return attrs.evolve(config, observer=observers)

    def _hand_over(self, config: Config, first: str) -> Config:
        """Let two policies decide, one after the other, and two victims if they differ."""
        plugins = self._discover(config)
        names = (first, self.policy)
        classes = [plugins.find("policy", name, option="--policy").cls for name in names]
        chosen: dict[str, Any] = {"policy": HANDOVER, "victim": config.scheduler.victim}
        options: dict[str, Mapping[str, Any]] = {**config.options}
        step = {"step": self.from_step}
        hosts = {"first": first, "then": self.policy, **step}
        options["policy"] = {**options.get("policy", {}), HANDOVER: hosts}
        if config.scheduler.victim == AUTO:
            victims = [cls.default_victim or DEFAULT_VICTIM for cls in classes]
            chosen["victim"] = victims[0]
            if victims[0] != victims[1]:
                chosen["victim"] = HANDOVER
                hosts = {"first": victims[0], "then": victims[1], **step}
                options["victim"] = {**options.get("victim", {}), HANDOVER: hosts}
        section = attrs.evolve(config.scheduler, **chosen)
        return attrs.evolve(config, scheduler=section, options=options)

    def _discover(self, config: Config) -> PluginManager:
        return PluginManager.discover(
            config.plugin_paths, config.plugins.disable, extra=self._extra
        )


def _files(table: Mapping[str, Any]) -> list[Any]:
    """The files of ``plugins.load``, as far as a table has any."""
    section = table.get("plugins", {})
    files = section.get("load", []) if isinstance(section, Mapping) else []
    return list(files) if isinstance(files, list | tuple) else [files]


def _error(path: Path, estimator: Estimator) -> float | None:
    """Median relative error of an estimator on recorded steps; None if there are none."""
    times = step_times(follow_log(path))
    errors = sorted(abs(estimator.step_time(shape) / seconds - 1) for shape, seconds in times)
    return percentile(errors, 50)
