"""The construction of components, with their subcomponents and parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from batchwright.callers.fault import place_of_error
from batchwright.clock import Clock
from batchwright.config import LIST_KINDS, Config, Use
from batchwright.context import Context, Sizes
from batchwright.default_plugins import AUTO, DEFAULT_VICTIM
from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Component, Estimator, Feature, FeatureComponent, OutputOracle
from batchwright.protocols.components import Components

_PARTS = tuple(COMPONENT_KINDS[kind] for kind in LIST_KINDS if kind != "feature")


@define
class ComponentFactory:
    """Build the components of one scheduler, each with a slot and a context of its own.

    Args:
        config: The configuration.
        plugins: Plugins to choose from.
        clock: The clock that all of them share.
        sizes: The sizes of the run, as far as they are known.
        output_oracle: True output lengths, in a simulation.
    """

    _config: Config
    _plugins: PluginManager
    _clock: Clock
    _sizes: Sizes
    _output_oracle: OutputOracle | None = None
    _num_made: int = field(default=0, init=False)

    def components(self, estimator: Estimator | None = None) -> Components:
        """Build all components that a scheduler is given.

        Args:
            estimator: The one to use instead of the one that is configured.
        """
        hasher, eviction, policy = map(self._once, ("hasher", "eviction", "policy"))
        victim = self._config.once("victim")
        if victim.name == AUTO:
            victim = self._config.named("victim", policy.default_victim or DEFAULT_VICTIM)
        features = tuple(map(self.make, self._config.feature))
        parts = [part for feature in features for part in self._parts_of(feature)]

        def listed(kind: str) -> tuple[Any, ...]:
            own = map(self.make, getattr(self._config, kind))
            return (*own, *(part for part in parts if isinstance(part, COMPONENT_KINDS[kind])))

        return Components(
            kv_parts=(hasher, eviction),
            kv=self._once("kv", hasher=hasher, eviction=eviction),
            policy=policy,
            victim=self.make(victim),
            preemption=self._once("preemption"),
            predictor=self._once("predictor"),
            estimator=estimator or self._once("estimator"),
            gates=listed("gate"),
            controls=listed("control"),
            limits=listed("limit"),
            resources=listed("resource"),
            features=features,
            observers=listed("observer"),
        )

    def make(self, use: Use, **parts: Any) -> Any:
        """Build one component, and its subcomponents.

        Args:
            use: Its name and its options.
            parts: What it finds in ``ctx.components`` beside its subcomponents.

        Raises:
            PluginError: Its constructor failed.
        """
        found = self._plugins.find(use.kind, use.name, option=use.option or use.path)
        if getattr(found.cls, "reads_truth", False):
            if self._output_oracle is None:
                problem = f"{use.name!r} reads true output lengths, which only a simulation knows"
                raise self._config.error(use.option, problem)
            parts["output_oracle"] = self._output_oracle
        source = found.distribution_label or found.path or found.module
        return self._build(found.cls, use, f"{use.kind} {use.name!r} ({source})", parts)

    def _once(self, kind: str, **parts: Any) -> Any:
        return self.make(self._config.once(kind), **parts)

    def _parts_of(self, feature: Feature) -> Iterator[Any]:
        """Build the components that belong to a feature.

        Raises:
            PluginError: The feature names them wrongly, or one cannot be built.
        """
        with naming(feature, Feature.components):
            parts = list(feature.components())
            for part in parts:
                if not isinstance(part, FeatureComponent) or not issubclass(part.component, _PARTS):
                    raise TypeError(f"expected FeatureComponent(component, options), got {part!r}")
        for part in parts:
            cls, path = part.component, f"{feature.ctx.path}.{part.component.name}"
            use = Use("feature", cls.name, path, options=part.options)
            label = f"{feature.ctx.label}: {cls.__name__}"
            yield self._build(cls, use, label, {"feature": feature})

    def _build(self, cls: type[Any], use: Use, label: str, parts: Mapping[str, Any]) -> Any:
        options = self._config.build_options(cls, use.options, use.path)
        subcomponents = {}
        for name, wanted in cls.subcomponents.items():
            chosen = self._config.once(wanted.kind)
            if wanted.option:
                option = f"{use.path}.{wanted.option}"
                chosen = self._config.named(wanted.kind, getattr(options, wanted.option), option)
            subcomponents[name] = self.make(chosen)
        ctx = Context(
            label=label,
            path=use.path,
            slot=self._num_made,
            clock=self._clock,
            seed=f"{self._config.scheduler.seed}/{use.path}/{cls.name}",
            sizes=self._sizes,
            folder=self._config.base_path,
            config=self._config,
        )
        ctx.components.update(subcomponents, **parts)
        self._num_made += 1
        with _named(cls, lambda: f"{label}: {cls.__name__}.__init__", "cannot be built"):
            component = cls(options, ctx)
            if getattr(component, "ctx", None) is not ctx:
                raise TypeError("it does not call super().__init__(options, ctx)")
            return component


@contextmanager
def naming(
    component: Component, method: Callable[..., Any], *passed: type[BaseException]
) -> Iterator[None]:
    """Name the component whose method fails while no scheduler watches over it.

    Args:
        component: The component.
        method: Its method.
        passed: Exceptions that are handed on as they are.

    Raises:
        PluginError: The method raised anything else that is not announced.
    """

    def where() -> str:
        return f"{component.ctx.label}: {method.__name__}()"

    with _named(type(component), where, "failed", *passed):
        yield


@contextmanager
def _named(
    cls: type[Component], where: Callable[[], str], what: str, *passed: type[BaseException]
) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if isinstance(error, (BatchwrightError, *OUTSIDE, *passed)):
            raise
        problem = f"{what}: {type(error).__name__}: {error}{place_of_error(cls, error)}"
        raise PluginError(problem, where=where()) from error
