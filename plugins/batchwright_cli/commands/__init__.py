"""The commands that ship with Batchwright, one a module, imported when it runs."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_command() -> list[LazyComponent]:
    return [
        LazyComponent("bench", "batchwright_cli.commands.bench:BenchCommand"),
        LazyComponent("calibrate", "batchwright_cli.commands.calibrate:CalibrateCommand"),
        LazyComponent("compare", "batchwright_cli.commands.compare:CompareCommand"),
        LazyComponent("config", "batchwright_cli.commands.config:ConfigCommand"),
        LazyComponent("explain", "batchwright_cli.commands.explain:ExplainCommand"),
        LazyComponent("new", "batchwright_cli.commands.new:NewCommand"),
        LazyComponent("plugins", "batchwright_cli.commands.plugins:PluginsCommand"),
        LazyComponent("replay", "batchwright_cli.commands.replay:ReplayCommand"),
        LazyComponent("run", "batchwright_cli.commands.run:RunCommand"),
        LazyComponent("simulate", "batchwright_cli.commands.simulate:SimulateCommand"),
        LazyComponent("timeline", "batchwright_cli.commands.timeline:TimelineCommand"),
        LazyComponent("workload", "batchwright_cli.commands.workload:WorkloadCommand"),
    ]
