"""Builds a scheduler, or an engine, from a configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from batchwright.callers.fault_place import place_of_error
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
from batchwright.exceptions import OUTSIDE, BatchwrightError, ConfigError, PluginError
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import (
    AttentionBackend,
    Component,
    Control,
    Estimator,
    Executor,
    Feature,
    FeatureComponent,
    Gate,
    Limit,
    ModelInfo,
    ModelSettings,
    Observer,
    Resource,
    Truth,
)
from batchwright.runtimes import check_runtime
from batchwright.scheduler import Components, Scheduler, SchedulerSettings
from batchwright_engine.engine import Engine

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
        self._truth: Truth | None = None

    def scheduler(
        self,
        model: ModelInfo | None = None,
        *,
        truth: Truth | None = None,
        estimator: Estimator | None = None,
        stopwatch: Clock | None = None,
    ) -> Scheduler:
        """Build the scheduler.

        Args:
            model: What the executor found out about its model; None without one.
            truth: What the executor knows of answers to come, in a simulation.
            estimator: The estimator that components may ask; None: the one that is configured.
            stopwatch: The clock that calls of components are timed by; None: that of all.

        Raises:
            ConfigError: Options exclude each other, or do not suit the model.
            PluginError: A component cannot be built.
        """
        limits = self._limits(model, self._num_blocks(model))
        check_combinations(self.config, limits.max_model_len)
        options = _common(SchedulerSettings, self.config.scheduler)
        settings = SchedulerSettings(**{**options, "compat": COMPAT[options["compat"]]})
        self._truth = truth
        components = self._components(limits, estimator)
        return Scheduler(components, settings, limits, self.clock, stopwatch)

    def engine(self) -> Engine:
        """Load the model and build the scheduler for it.

        Raises:
            ConfigError: No model is named, or the options do not suit it.
            ModelError: The model cannot be loaded or served.
            PluginError: A component cannot be built.
        """
        config = self.config
        if config.model.path is None:
            raise ConfigError("a run needs a model", path="model.path", source=config.source)
        self._check_host("engine")
        unknown = self._limits(None, num_blocks=0)
        executor = self.make(config.once("executor"), unknown)
        settings = self._model_settings(config.model.path, self._attention(unknown))
        return self._engine(executor, settings)

    def simulator(self) -> Engine:
        """Build the engine of a simulation: the same scheduler, a simulated executor.

        Raises:
            ConfigError: The options exclude each other.
            PluginError: A component cannot be built.
        """
        self._check_host("simulator", but=("executor", "attention"))
        unknown = self._limits(None, num_blocks=0)
        name = self.config.simulation.executor
        use = self.config.named("executor", name, "simulation.executor")
        truth = self.make(self.config.truth, unknown)
        executor = self.make(use, unknown, estimator=truth)
        is_known = self.config.simulation.oracle_estimator
        settings = self._model_settings(self.config.model.path or "", attention=())
        known = truth if is_known else None
        return self._engine(executor, settings, estimator=known, stopwatch=MonotonicClock())

    def _check_host(self, host: str, but: Sequence[str] = ()) -> None:
        """Refuse what a host cannot do justice; kinds in ``but`` are none of its own."""
        chosen = (
            u for u in self.config.uses() if u.option and u.name != AUTO and u.kind not in but
        )
        found = [self.plugins.find(use.kind, use.name) for use in chosen]
        check_runtime(host, found, self.config.plugins.accept_degraded)

    def _engine(self, executor: Executor, settings: ModelSettings, **given: Any) -> Engine:
        """Load the model and build the scheduler for it."""
        config = self.config
        with naming(executor, "load", OSError):
            model = executor.load(settings)
        scheduler = self.scheduler(model, truth=executor.truth, **given)
        with naming(executor, "allocate_kv"):
            executor.allocate_kv(scheduler.sizes.num_blocks, scheduler.sizes.block_size)
        for feature in scheduler.components.features:
            with naming(feature, "worker_side"):
                executor.install(feature.name, feature.worker_side())
        return Engine(scheduler, executor, model, max_restarts=config.executor.max_restarts)

    def make_alone(self, use: Use) -> Any:
        """Build a component that belongs to no scheduler, e.g. a workload."""
        return self.make(use, self._limits(None, num_blocks=0))

    def inspect(self) -> ModelInfo | None:
        """Ask the executor about its model without loading it; None if it cannot tell.

        Raises:
            ModelError: The model could not be served.
            PluginError: A component cannot be built.
        """
        path, unknown = self.config.model.path, self._limits(None, num_blocks=0)
        if path is None:
            return None
        executor: Executor = self.make(self.config.once("executor"), unknown)
        settings = self._model_settings(path, self._attention(unknown))
        with naming(executor, "inspect"):
            return executor.inspect(settings)

    def make(self, use: Use, limits: Sizes, context: type[Context] = Context, **parts: Any) -> Any:
        """Build one component, and those that it hosts.

        Raises:
            PluginError: Its constructor failed.
        """
        found = self.plugins.find(use.kind, use.name, option=use.option or use.path)
        label = (
            f"{use.kind} {use.name!r} ({found.distribution_label or found.path or found.module})"
        )
        return self._build(found.cls, use.options, use.path, label, limits, parts, context)

    def _hosted(
        self, cls: type[Component], options: Any, path: str, limits: Sizes
    ) -> dict[str, Any]:
        """Build what a component hosts."""
        found = {}
        for name, hosted in cls.hosts.items():
            use = self.config.once(hosted.kind)
            if hosted.option:
                chosen = getattr(options, hosted.option)
                use = self.config.named(hosted.kind, chosen, f"{path}.{hosted.option}")
            if hosted.kind == "predictor":
                found[name] = self._predictor(use, limits)
            else:
                found[name] = self.make(use, limits, hosted.context)
        return found

    def _build(
        self,
        cls: type[Any],
        table: Mapping[str, Any],
        path: str,
        label: str,
        limits: Sizes,
        parts: Mapping[str, Any],
        context: type[Context] = Context,
    ) -> Any:
        options = structure_options(cls, table, path, self.config.source)
        hosted = self._hosted(cls, options, path, limits)
        ctx = context(
            label=label,
            path=path,
            slot=self._num_made,
            clock=self.clock,
            seed=f"{self.config.scheduler.seed}/{path}/{cls.name}",
            limits=limits,
            folder=self.config.base_path,
            config=self.config,
        )
        ctx.parts.update(hosted, **parts)
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

    def _components(self, limits: Sizes, estimator: Estimator | None) -> Components:
        once = self.config.once
        self._num_made = 0  # slots of request.state belong to the scheduler's components
        hasher = self.make(once("hasher"), limits)
        eviction = self.make(once("eviction"), limits)
        policy = self.make(once("policy"), limits)
        features = self._listed("feature", limits)
        parts = [part for feature in features for part in self._parts_of(feature, limits)]

        def listed(kind: str, base: type[Any]) -> tuple[Any, ...]:
            return (*self._listed(kind, limits), *(p for p in parts if isinstance(p, base)))

        return Components(
            parts=(hasher, eviction),
            kv=self.make(once("kv"), limits, hasher=hasher, eviction=eviction),
            policy=policy,
            victim=self.make(self._victim(policy), limits),
            preemption=self.make(once("preemption"), limits),
            predictor=self._predictor(once("predictor"), limits),
            estimator=estimator or self.make(once("estimator"), limits),
            gates=listed("gate", Gate),
            controls=listed("control", Control),
            limits=listed("limit", Limit),
            resources=listed("resource", Resource),
            features=features,
            observers=listed("observer", Observer),
        )

    def _predictor(self, use: Use, limits: Sizes) -> Any:
        """Build the predictor, with the truth if it reads that.

        Raises:
            ConfigError: No component knows the truth here.
        """
        if not self.plugins.find(use.kind, use.name, option=use.option).cls.reads_truth:
            return self.make(use, limits)
        if self._truth is None:
            problem = f"{use.name!r} reads true output lengths, which only a simulation knows"
            raise located(problem, use.option, self.config.source)
        return self.make(use, limits, truth=self._truth)

    def _parts_of(self, feature: Feature, limits: Sizes) -> list[Any]:
        """Build the components that belong to a feature."""
        return [
            self._build(
                part.component,
                part.options,
                f"{feature.ctx.path}.{part.component.name}",
                f"{feature.ctx.label}: {part.component.__name__}",
                limits,
                {"feature": feature},
            )
            for part in _contents(feature)
        ]

    def _listed(self, kind: str, limits: Sizes) -> tuple[Any, ...]:
        return tuple(self.make(use, limits) for use in getattr(self.config, kind))

    def _victim(self, policy: Any) -> Use:
        chosen = self.config.once("victim")
        if chosen.name != AUTO:
            return chosen
        return self.config.named("victim", policy.default_victim or DEFAULT_VICTIM)

    def _model_settings(self, path: str, attention: Sequence[AttentionBackend]) -> ModelSettings:
        return ModelSettings(
            path=self._model_path(path),
            dtype=self.config.model.dtype,
            max_model_len=self.config.model.max_model_len,
            seed=self.config.scheduler.seed,
            attention=attention,
            block_size=self.config.kv.block_size,
        )

    def _attention(self, limits: Sizes) -> Sequence[AttentionBackend]:
        """The backend that is named; else all that take part in the choice, best first."""
        chosen = self.config.once("attention")
        if chosen.name != AUTO:
            return (self.make(chosen, limits),)
        offered = self.plugins.registrations("attention")
        ranks = [(-rank, r.name) for r in offered if (rank := r.cls.preference) is not None]
        names = [name for _, name in sorted(ranks)]
        return tuple(self.make(self.config.named("attention", n), limits) for n in names)

    def _model_path(self, path: str) -> str:
        folder = self.config.resolve(path)
        return str(folder) if folder.exists() else path

    def _limits(self, model: ModelInfo | None, num_blocks: int) -> Sizes:
        """The sizes of a run, as far as they are known."""
        lengths = (self.config.max_model_len, model and model.max_model_len)
        max_model_len = min((n for n in lengths if n is not None), default=DEFAULT_MAX_MODEL_LEN)
        sizes = _common(Sizes, self.config.scheduler, self.config.kv)
        return Sizes(**{**sizes, "max_model_len": max_model_len, "num_blocks": num_blocks})

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
    with naming(feature, "contents"):
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
) -> Scheduler:
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
