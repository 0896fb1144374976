"""Builds a scheduler from a configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from batchwright.clock import Clock, MonotonicClock
from batchwright.compat import COMPAT
from batchwright.config import (
    Config,
    Use,
    check_combinations,
    check_components,
    located,
    structure_options,
)
from batchwright.config.sections import DEFAULT_MAX_MODEL_LEN, DEFAULT_NUM_BLOCKS
from batchwright.context import Context, Sizes
from batchwright.default_plugins import AUTO, DEFAULT_VICTIM
from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.fault_place import place_of_error
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import (
    Component,
    Control,
    Estimator,
    Feature,
    FeatureComponent,
    Gate,
    Limit,
    ModelInfo,
    Observer,
    OutputOracle,
    Resource,
    SchedulerBase,
)
from batchwright.runtimes import check_runtime
from batchwright.scheduler import Components, SchedulerSettings

_log = logging.getLogger("batchwright.config")
_PARTS = (Gate, Control, Limit, Resource, Observer)


class Assembly:
    """Makes the components that a configuration names, once each, at start.

    Args:
        config: The configuration.
        plugins: What is offered; None discovers it.
        clock: The clock that all of them share.
        hints: Whether tables of options that have no effect are named in the log.
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
        for hint in config.unselected() if hints else ():
            _log.warning("%s", hint)
        self.clock = clock or MonotonicClock()
        self._num_made = 0
        self._output_oracle: OutputOracle | None = None

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
            model: What the executor found out about its model; None without one.
            output_oracle: What the executor knows of answers to come, in a simulation.
            estimator: The estimator that components may ask; None: the one that is configured.
            stopwatch: The clock that calls of components are timed by; None: that of all.

        Raises:
            ConfigError: Options exclude each other, or do not suit the model.
            PluginError: A component cannot be built.
        """
        sizes = self.sizes(model, self._num_blocks(model))
        check_combinations(self.config, sizes.max_model_len)
        options = _common(SchedulerSettings, self.config.scheduler)
        settings = SchedulerSettings(**{**options, "compat": COMPAT[options["compat"]]})
        self._output_oracle = output_oracle
        components = self._components(sizes, estimator)
        scheduler: SchedulerBase = self.make(self.config.once("scheduler"), sizes)
        with naming(scheduler, "start"):
            scheduler.start(components, settings, stopwatch or self.clock)
        return scheduler

    def check_runtime(self, runtime: str, but: Sequence[str] = ()) -> None:
        """Refuse what a runtime cannot do justice; kinds in ``but`` are none of its own."""
        chosen = (
            u for u in self.config.uses() if u.option and u.name != AUTO and u.kind not in but
        )
        found = [self.plugins.find(use.kind, use.name) for use in chosen]
        check_runtime(runtime, found, self.config.plugins.accept_degraded)

    def make_alone(self, use: Use) -> Any:
        """Build a component that belongs to no scheduler, e.g. a workload."""
        return self.make(use, self.sizes(None, num_blocks=0))

    def make(self, use: Use, sizes: Sizes, context: type[Context] = Context, **parts: Any) -> Any:
        """Build one component, and its subcomponents.

        Raises:
            PluginError: Its constructor failed.
        """
        found = self.plugins.find(use.kind, use.name, option=use.option or use.path)
        label = (
            f"{use.kind} {use.name!r} ({found.distribution_label or found.path or found.module})"
        )
        return self._build(found.cls, use.options, use.path, label, sizes, parts, context)

    def _subcomponents(
        self, cls: type[Component], options: Any, path: str, sizes: Sizes
    ) -> dict[str, Any]:
        """Build the subcomponents of a component."""
        found = {}
        for name, hosted in cls.subcomponents.items():
            use = self.config.once(hosted.kind)
            if hosted.option:
                chosen = getattr(options, hosted.option)
                use = self.config.named(hosted.kind, chosen, f"{path}.{hosted.option}")
            if hosted.kind == "predictor":
                found[name] = self._predictor(use, sizes)
            else:
                found[name] = self.make(use, sizes, hosted.context)
        return found

    def _build(
        self,
        cls: type[Any],
        table: Mapping[str, Any],
        path: str,
        label: str,
        sizes: Sizes,
        parts: Mapping[str, Any],
        context: type[Context] = Context,
    ) -> Any:
        options = structure_options(cls, table, path, self.config.source)
        hosted = self._subcomponents(cls, options, path, sizes)
        ctx = context(
            label=label,
            path=path,
            slot=self._num_made,
            clock=self.clock,
            seed=f"{self.config.scheduler.seed}/{path}/{cls.name}",
            sizes=sizes,
            folder=self.config.base_path,
            config=self.config,
        )
        ctx.components.update(hosted, **parts)
        self._num_made += 1
        try:
            component = cls(options, ctx)
            if getattr(component, "ctx", None) is not ctx:
                raise TypeError("it does not call super().__init__(options, ctx)")
            return component
        except (BatchwrightError, *OUTSIDE):
            raise
        except BaseException as error:
            place = place_of_error(cls, error)
            what = f"cannot be built: {type(error).__name__}: {error}{place}"
            raise PluginError(what, where=f"{label}: {cls.__name__}.__init__") from error

    def _components(self, sizes: Sizes, estimator: Estimator | None) -> Components:
        once = self.config.once
        self._num_made = 0  # places in a request's data are for the scheduler's components
        hasher = self.make(once("hasher"), sizes)
        eviction = self.make(once("eviction"), sizes)
        policy = self.make(once("policy"), sizes)
        features = self._listed("feature", sizes)
        parts = [part for feature in features for part in self._parts_of(feature, sizes)]

        def listed(kind: str, base: type[Any]) -> tuple[Any, ...]:
            return (*self._listed(kind, sizes), *(p for p in parts if isinstance(p, base)))

        return Components(
            kv_parts=(hasher, eviction),
            kv=self.make(once("kv"), sizes, hasher=hasher, eviction=eviction),
            policy=policy,
            victim=self.make(self._victim(policy), sizes),
            preemption=self.make(once("preemption"), sizes),
            predictor=self._predictor(once("predictor"), sizes),
            estimator=estimator or self.make(once("estimator"), sizes),
            gates=listed("gate", Gate),
            controls=listed("control", Control),
            limits=listed("limit", Limit),
            resources=listed("resource", Resource),
            features=features,
            observers=listed("observer", Observer),
        )

    def _predictor(self, use: Use, sizes: Sizes) -> Any:
        """Build the predictor, with the truth if it reads that.

        Raises:
            ConfigError: No component knows the truth here.
        """
        if not self.plugins.find(use.kind, use.name, option=use.option).cls.reads_truth:
            return self.make(use, sizes)
        if self._output_oracle is None:
            problem = f"{use.name!r} reads true output lengths, which only a simulation knows"
            raise located(problem, use.option, self.config.source)
        return self.make(use, sizes, output_oracle=self._output_oracle)

    def _parts_of(self, feature: Feature, sizes: Sizes) -> list[Any]:
        """Build the components that belong to a feature."""
        return [
            self._build(
                part.component,
                part.options,
                f"{feature.ctx.path}.{part.component.name}",
                f"{feature.ctx.label}: {part.component.__name__}",
                sizes,
                {"feature": feature},
            )
            for part in _contents(feature)
        ]

    def _listed(self, kind: str, sizes: Sizes) -> tuple[Any, ...]:
        return tuple(self.make(use, sizes) for use in getattr(self.config, kind))

    def _victim(self, policy: Any) -> Use:
        chosen = self.config.once("victim")
        if chosen.name != AUTO:
            return chosen
        return self.config.named("victim", policy.default_victim or DEFAULT_VICTIM)

    def sizes(self, model: ModelInfo | None, num_blocks: int) -> Sizes:
        """The sizes of a run, as far as they are known."""
        lengths = (self.config.max_model_len, model and model.max_model_len)
        max_model_len = min((n for n in lengths if n is not None), default=DEFAULT_MAX_MODEL_LEN)
        known = _common(Sizes, self.config.scheduler, self.config.kv)
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
        raise located(problem, "kv.memory", self.config.source)


@contextmanager
def naming(component: Component, method: str, *passed: type[BaseException]) -> Iterator[None]:
    """Name the component whose method fails while no scheduler watches over it.

    Args:
        component: The component.
        method: Its method.
        passed: Exceptions that are handed on as they are.

    Raises:
        PluginError: The method raised anything else that is not announced.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, (BatchwrightError, *passed, *OUTSIDE)):
            raise
        place = place_of_error(type(component), error)
        what = f"failed: {type(error).__name__}: {error}{place}"
        raise PluginError(what, where=f"{component.ctx.label}: {method}()") from error


def _contents(feature: Feature) -> list[FeatureComponent]:
    """What belongs to a feature, checked."""
    with naming(feature, "components"):
        parts = list(feature.components())
        for part in parts:
            if not isinstance(part, FeatureComponent) or not issubclass(part.component, _PARTS):
                raise TypeError(f"expected FeatureComponent(component, options), got {part!r}")
    return parts


def _common(cls: type[Any], *sections: Any) -> dict[str, Any]:
    """The options of sections that are fields of a class, too."""
    values = {k: v for s in sections for k, v in attrs.asdict(s, recurse=False).items()}
    return {name: values[name] for name in attrs.fields_dict(cls) if name in values}


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
