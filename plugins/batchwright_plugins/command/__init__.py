"""The commands that ship with Batchwright, one a module, imported when it runs."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_command() -> list[Offer]:
    return [
        Offer("bench", "batchwright_plugins.command.bench:BenchCommand"),
        Offer("calibrate", "batchwright_plugins.command.calibrate:CalibrateCommand"),
        Offer("compare", "batchwright_plugins.command.compare:CompareCommand"),
        Offer("config", "batchwright_plugins.command.config:ConfigCommand"),
        Offer("explain", "batchwright_plugins.command.explain:ExplainCommand"),
        Offer("new", "batchwright_plugins.command.new:NewCommand"),
        Offer("plugins", "batchwright_plugins.command.plugins:PluginsCommand"),
        Offer("replay", "batchwright_plugins.command.replay:ReplayCommand"),
        Offer("run", "batchwright_plugins.command.run:RunCommand"),
        Offer("simulate", "batchwright_plugins.command.simulate:SimulateCommand"),
        Offer("timeline", "batchwright_plugins.command.timeline:TimelineCommand"),
        Offer("workload", "batchwright_plugins.command.workload:WorkloadCommand"),
    ]
