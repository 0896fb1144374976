"""The commands that ship with Batchwright, one a module, imported when it runs."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_command() -> list[Offer]:
    return [
        Offer("bench", "batchwright_cli.commands.bench:BenchCommand"),
        Offer("calibrate", "batchwright_cli.commands.calibrate:CalibrateCommand"),
        Offer("compare", "batchwright_cli.commands.compare:CompareCommand"),
        Offer("config", "batchwright_cli.commands.config:ConfigCommand"),
        Offer("explain", "batchwright_cli.commands.explain:ExplainCommand"),
        Offer("new", "batchwright_cli.commands.new:NewCommand"),
        Offer("plugins", "batchwright_cli.commands.plugins:PluginsCommand"),
        Offer("replay", "batchwright_cli.commands.replay:ReplayCommand"),
        Offer("run", "batchwright_cli.commands.run:RunCommand"),
        Offer("simulate", "batchwright_cli.commands.simulate:SimulateCommand"),
        Offer("timeline", "batchwright_cli.commands.timeline:TimelineCommand"),
        Offer("workload", "batchwright_cli.commands.workload:WorkloadCommand"),
    ]
