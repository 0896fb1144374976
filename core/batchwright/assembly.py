"""Build a scheduler from a configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from batchwright.clock import Clock, MonotonicClock
from batchwright.component_checks import check_components
from batchwright.component_factory import ComponentFactory, naming
from batchwright.config import SELECTORS, Config, Use
from batchwright.config.checks import check_combinations
from batchwright.config.sections import DEFAULT_MAX_MODEL_LEN, DEFAULT_NUM_BLOCKS
from batchwright.context import Sizes
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Estimator, ModelInfo, OutputOracle, SchedulerBase

_log = logging.getLogger("batchwright.config")


class Assembly:
    """Make the components that a configuration names, once each, at start.

    Args:
        config: The configuration.
        plugins: Plugins to choose from; None discovers them.
        clock: The clock that all of them share.
        hints: True if tables of options that have no effect are named in the log.
    """

    def __init__(
        self,
        config: Config,
        *,
        plugins: PluginManager | None = None,
        clock: Clock | None = None,
        hints: bool = True,
    ) -> None:
        self.config = config
        self.plugins = plugins or PluginManager.discover(
            config.plugin_paths, config.plugins.disable
        )
        check_components(config, self.plugins)
        for use in config.unselected() if hints else ():
            option, chosen = SELECTORS[use.kind], config.once(use.kind).name
            effect = f"[{use.path}] has no effect: {option} = {chosen!r}"
            _log.warning("%s; to select it, set %s = %r", effect, option, use.name)
        self.clock = clock or MonotonicClock()

    def scheduler(
        self,
        model: ModelInfo | None = None,
        *,
        output_oracle: OutputOracle | None = None,
        estimator: Estimator | None = None,
        stopwatch: Clock | None = None,
    ) -> SchedulerBase:
        """Build the scheduler.

        Args:
            model: Facts about the executor's model; None without one.
            output_oracle: The executor's knowledge of future answers, in a simulation.
            estimator: The estimator that components may ask; None: the one that is configured.
            stopwatch: The clock that calls of components are timed by; None: that of all.

        Raises:
            ConfigError: Options exclude each other, or do not suit the model.
            PluginError: A component cannot be built.
        """
        sizes = self._sizes(model, self._num_blocks(model))
        check_combinations(self.config, sizes.max_model_len)
        factory = self._factory(sizes, output_oracle)
        components = factory.components(estimator)
        scheduler: SchedulerBase = factory.make(self.config.once("scheduler"))
        with naming(scheduler, SchedulerBase.start):
            scheduler.start(components, self.config.scheduler, stopwatch or self.clock)
        return scheduler

    def make(self, use: Use, sizes: Sizes | None = None, **parts: Any) -> Any:
        """Build a component that belongs to no scheduler, e.g. a workload.

        Args:
            use: Its name and its options.
            sizes: The sizes of the run; None: those that are known without a model.
            parts: What it finds in ``ctx.components`` beside its subcomponents.

        Raises:
            PluginError: It cannot be built.
        """
        return self._factory(sizes or self._sizes(None, num_blocks=0)).make(use, **parts)

    def _factory(self, sizes: Sizes, output_oracle: OutputOracle | None = None) -> ComponentFactory:
        return ComponentFactory(self.config, self.plugins, self.clock, sizes, output_oracle)

    def _sizes(self, model: ModelInfo | None, num_blocks: int) -> Sizes:
        lengths = (self.config.max_model_len, model and model.max_model_len)
        max_model_len = min((n for n in lengths if n is not None), default=DEFAULT_MAX_MODEL_LEN)
        sections = (attrs.asdict(s, recurse=False) for s in (self.config.scheduler, self.config.kv))
        options = {key: value for section in sections for key, value in section.items()}
        known = {key: options[key] for key in attrs.fields_dict(Sizes) if key in options}
        return Sizes(**{**known, "max_model_len": max_model_len, "num_blocks": num_blocks})

    def _num_blocks(self, model: ModelInfo | None) -> int:
        """Blocks of the cache: given, or as many as the memory holds."""
        kv = self.config.kv
        if kv.memory_bytes is None:
            return DEFAULT_NUM_BLOCKS if kv.num_blocks is None else kv.num_blocks
        bytes_per_block = model.kv_bytes_per_token * kv.block_size if model is not None else 0
        num_blocks = kv.memory_bytes // bytes_per_block if bytes_per_block else 0
        if num_blocks >= 2:
            return num_blocks
        problem = f"{kv.memory} holds {num_blocks} blocks of {bytes_per_block:,} bytes; give 2"
        if not bytes_per_block:
            problem = "needs a model that says how much a token takes; give kv.num_blocks instead"
        raise self.config.error("kv.memory", problem)


def scheduler_from_config(
    config: Mapping[str, Any], *, clock: Clock | None = None, plugins: Iterable[object] = ()
) -> SchedulerBase:
    """Build a scheduler without a model; see ``Scheduler.from_config``.

    Args:
        config: The structure of the TOML file.
        clock: Defaults to the machine's monotonic clock.
        plugins: Modules or objects with hooks, beside those that are installed.

    Raises:
        ConfigError: The configuration cannot be used.
        PluginError: A component that it selects cannot be had.
    """
    parsed = Config.from_dict(config)
    disable = parsed.plugins.disable
    offered = PluginManager.discover(parsed.plugin_paths, disable, extra=tuple(plugins))
    return Assembly(parsed, plugins=offered, clock=clock).scheduler()
