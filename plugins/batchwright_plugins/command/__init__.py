"""The commands that ship with Batchwright, one a module.

These modules are imported by ``batchwright --help``: what a command needs is imported
when it runs.
"""

from __future__ import annotations

from batchwright import Command, hookimpl
from batchwright_plugins.command.bench import BenchCommand
from batchwright_plugins.command.calibrate import CalibrateCommand
from batchwright_plugins.command.compare import CompareCommand
from batchwright_plugins.command.config import ConfigCommand
from batchwright_plugins.command.explain import ExplainCommand
from batchwright_plugins.command.new import NewCommand
from batchwright_plugins.command.plugins import PluginsCommand
from batchwright_plugins.command.replay import ReplayCommand
from batchwright_plugins.command.run import RunCommand
from batchwright_plugins.command.simulate import SimulateCommand
from batchwright_plugins.command.timeline import TimelineCommand
from batchwright_plugins.command.workload import WorkloadCommand

__all__ = [
    "BenchCommand",
    "CalibrateCommand",
    "CompareCommand",
    "ConfigCommand",
    "ExplainCommand",
    "NewCommand",
    "PluginsCommand",
    "ReplayCommand",
    "RunCommand",
    "SimulateCommand",
    "TimelineCommand",
    "WorkloadCommand",
]


@hookimpl
def batchwright_register_command() -> list[type[Command]]:
    """Offer the commands."""
    return [
        BenchCommand,
        CalibrateCommand,
        CompareCommand,
        ConfigCommand,
        ExplainCommand,
        NewCommand,
        PluginsCommand,
        ReplayCommand,
        RunCommand,
        SimulateCommand,
        TimelineCommand,
        WorkloadCommand,
    ]
