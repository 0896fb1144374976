"""The construction of components, with their subcomponents and parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from batchwright.callers.fault import place_of_error
from batchwright.clock import Clock
from batchwright.config import Config, Use
from batchwright.context import Context, Sizes
from batchwright.exceptions import OUTSIDE, BatchwrightError, PluginError
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import (
    Component,
    Control,
    Feature,
    FeatureComponent,
    Gate,
    Limit,
    Observer,
    OutputOracle,
    Resource,
)

_PARTS = (Gate, Control, Limit, Resource, Observer)


class ComponentFactory:
    """Build the components of one scheduler, each with a slot and a context of its own.

    Args:
        config: The configuration.
        plugins: Plugins to choose from.
        clock: The clock that all of them share.
        output_oracle: True output lengths, in a simulation.
    """

    def __init__(
        self,
        config: Config,
        plugins: PluginManager,
        clock: Clock,
        output_oracle: OutputOracle | None = None,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._clock = clock
        self._output_oracle = output_oracle
        self._num_made = 0

    def make(self, use: Use, sizes: Sizes, **parts: Any) -> Any:
        """Build one component, and its subcomponents.

        Raises:
            PluginError: Its constructor failed.
        """
        found = self._plugins.find(use.kind, use.name, option=use.option or use.path)
        if getattr(found.cls, "reads_truth", False):
            if self._output_oracle is None:
                problem = f"{use.name!r} reads true output lengths, which only a simulation knows"
                raise self._config.error(use.option, problem)
            parts["output_oracle"] = self._output_oracle
        label = (
            f"{use.kind} {use.name!r} ({found.distribution_label or found.path or found.module})"
        )
        return self._build(found.cls, use.options, use.path, label, sizes, parts)

    def make_parts(self, feature: Feature, sizes: Sizes) -> list[Any]:
        """Build the components that belong to a feature.

        Raises:
            PluginError: The feature names them wrongly, or one cannot be built.
        """
        return [
            self._build(
                part.component,
                part.options,
                f"{feature.ctx.path}.{part.component.name}",
                f"{feature.ctx.label}: {part.component.__name__}",
                sizes,
                {"feature": feature},
            )
            for part in _parts_of(feature)
        ]

    def _build(
        self,
        cls: type[Any],
        table: Mapping[str, Any],
        path: str,
        label: str,
        sizes: Sizes,
        parts: Mapping[str, Any],
    ) -> Any:
        options = self._config.build_options(cls, table, path)
        subcomponents = self._subcomponents(cls, options, path, sizes)
        ctx = Context(
            label=label,
            path=path,
            slot=self._num_made,
            clock=self._clock,
            seed=f"{self._config.scheduler.seed}/{path}/{cls.name}",
            sizes=sizes,
            folder=self._config.base_path,
            config=self._config,
        )
        ctx.components.update(subcomponents, **parts)
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

    def _subcomponents(
        self, cls: type[Component], options: Any, path: str, sizes: Sizes
    ) -> dict[str, Any]:
        """Build the subcomponents of a component."""
        found = {}
        for name, wanted in cls.subcomponents.items():
            use = self._config.once(wanted.kind)
            if wanted.option:
                chosen = getattr(options, wanted.option)
                use = self._config.named(wanted.kind, chosen, f"{path}.{wanted.option}")
            found[name] = self.make(use, sizes)
        return found


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
    try:
        yield
    except BaseException as error:
        if isinstance(error, (BatchwrightError, *passed, *OUTSIDE)):
            raise
        place = place_of_error(type(component), error)
        what = f"failed: {type(error).__name__}: {error}{place}"
        raise PluginError(what, where=f"{component.ctx.label}: {method.__name__}()") from error


def _parts_of(feature: Feature) -> list[FeatureComponent]:
    """Return the components of a feature, checked."""
    with naming(feature, Feature.components):
        parts = list(feature.components())
        for part in parts:
            if not isinstance(part, FeatureComponent) or not issubclass(part.component, _PARTS):
                raise TypeError(f"expected FeatureComponent(component, options), got {part!r}")
    return parts
