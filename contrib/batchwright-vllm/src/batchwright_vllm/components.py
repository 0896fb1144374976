"""The components that a TOML file selects, built for vLLM's scheduler."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import frozen

from batchwright.clock import Clock
from batchwright.component_checks import check_components
from batchwright.component_factory import ComponentFactory
from batchwright.config import LIST_KINDS, Config, load_config
from batchwright.config.sections import KVSection, SchedulerSection
from batchwright.context import Sizes
from batchwright.default_plugins import AUTO, DEFAULT_VICTIM
from batchwright.exceptions import ConfigError
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import (
    Component,
    Control,
    Estimator,
    Gate,
    Limit,
    Observer,
    Predictor,
    Preemption,
    SchedulingPolicy,
    Victim,
)
from batchwright_engine.runtimes import check_runtime
from batchwright_vllm.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from vllm.config import VllmConfig

__all__ = [
    "VARIABLE",
    "VllmComponents",
    "build_components",
    "find_config",
    "sizes_of",
    "with_sizes",
]

VARIABLE: Final = "BATCHWRIGHT_CONFIG"
"""Environment variable with the path of the TOML file."""

KEY: Final = "batchwright"
"""Key of vLLM's ``additional_config`` with the path of the TOML file, or its tables."""

OWN: Final = {"fcfs": "fcfs", "priority": "priority"}
"""Policies of vLLM, and ours that decide the same."""

IGNORED: Final = ("workload",)
"""Kinds that belong to simulations, which the same TOML file may describe."""

_log = logging.getLogger("batchwright.vllm")


def find_config(vllm_config: VllmConfig) -> Config:
    """Read the TOML file that ``additional_config`` or the environment names.

    Without one the policy is vLLM's, by its own name.

    Raises:
        ConfigError: It cannot be read, or is wrong.
    """
    given = vllm_config.additional_config
    named = given.get(KEY) if isinstance(given, Mapping) else None
    if isinstance(named, Mapping):
        return Config.from_dict(named, source=f"additional_config[{KEY!r}]")
    path = named or os.environ.get(VARIABLE)
    if path is None:
        policy = OWN[str(vllm_config.scheduler_config.policy)]
        return Config.from_dict({"scheduler": {"policy": policy}})
    if not isinstance(path, str):
        raise ConfigError(
            f"additional_config[{KEY!r}] must be the path of a TOML file, or its tables as a "
            f"dict, not {path!r}"
        )
    return load_config(Path(path))


def sizes_of(vllm_config: VllmConfig, config: Config, num_blocks: int, block_size: int) -> Sizes:
    """Return the sizes of a run: those of vLLM count."""
    scheduler, cache = vllm_config.scheduler_config, vllm_config.cache_config
    sizes = Sizes(
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        max_model_len=vllm_config.model_config.max_model_len,
        block_size=block_size,
        num_blocks=num_blocks,
        num_lookahead_tokens=vllm_config.num_lookahead_tokens,
        max_policy_preemptions=config.scheduler.max_policy_preemptions,
        enable_chunked_prefill=bool(scheduler.enable_chunked_prefill),
        enable_prefix_caching=bool(cache.enable_prefix_caching),
    )
    _tell_differences(config, sizes)
    return sizes


def with_sizes(config: Config, sizes: Sizes) -> Config:
    """Return a configuration with the sizes of vLLM, as a decision log records it."""
    names = attrs.fields_dict(Sizes)
    sections = {
        section: attrs.evolve(
            getattr(config, section),
            **{n: getattr(sizes, n) for n in attrs.fields_dict(cls) if n in names},
        )
        for section, cls in (("scheduler", SchedulerSection), ("kv", KVSection))
    }
    return attrs.evolve(config, **sections)


@frozen(kw_only=True)
class VllmComponents:
    """The components that take part in the decisions of vLLM's scheduler."""

    policy: SchedulingPolicy
    victim: Victim
    preemption: Preemption
    predictor: Predictor
    estimator: Estimator
    gates: tuple[Gate, ...] = ()
    controls: tuple[Control, ...] = ()
    limits: tuple[Limit, ...] = ()
    observers: tuple[Observer, ...] = ()

    def __iter__(self) -> Iterator[Component]:
        yield self.estimator
        yield self.policy
        yield self.victim
        yield self.preemption
        yield self.predictor
        for several in (self.gates, self.controls, self.limits, self.observers):
            yield from several

    def __str__(self) -> str:
        names = [f"policy {self.policy.name}", f"victim {self.victim.name}"]
        for kind in ("gates", "controls", "limits", "observers"):
            found = [component.name for component in getattr(self, kind)]
            names += [f"{kind} {', '.join(found)}"] if found else []
        return "; ".join(names)

    def subcomponents(self) -> Iterator[Component]:
        """Components that were made for one of these, and are not among them."""
        return (c.ctx.components[name] for c in self for name in c.subcomponents)


def build_components(config: Config, sizes: Sizes, clock: Clock) -> VllmComponents:
    """Build the components that vLLM's scheduler can honour.

    Raises:
        ConfigError: One that is selected cannot be honoured; or its options are wrong.
        PluginError: One cannot be built.
    """
    plugins = PluginManager.discover(config.plugin_paths, config.plugins.disable)
    check_components(config, plugins)
    _check_support(config, plugins)
    factory = ComponentFactory(config, plugins, clock, sizes)

    def once(kind: str) -> Any:
        return factory.make(config.once(kind))

    def listed(kind: str) -> tuple[Any, ...]:
        return tuple(map(factory.make, getattr(config, kind)))

    policy = once("policy")
    victim = config.once("victim")
    if victim.name == AUTO:
        victim = config.named("victim", policy.default_victim or DEFAULT_VICTIM)
    return VllmComponents(
        policy=policy,
        victim=factory.make(victim),
        preemption=once("preemption"),
        predictor=once("predictor"),
        estimator=once("estimator"),
        gates=listed("gate"),
        controls=listed("control"),
        limits=listed("limit"),
        observers=listed("observer"),
    )


def _check_support(config: Config, plugins: PluginManager) -> None:
    """Refuse what vLLM cannot honour. A kind that is left at its default is vLLM's affair."""
    defaults = Config()
    chosen = []
    for use in config.uses():
        is_chosen = use.kind in LIST_KINDS or (
            use.option and use.name not in (AUTO, defaults.once(use.kind).name)
        )
        if is_chosen and use.kind not in IGNORED:
            chosen.append(plugins.find(use.kind, use.name))
    check_runtime("vllm", chosen, config.plugins.accept_degraded, CAPABILITIES)


def _tell_differences(config: Config, sizes: Sizes) -> None:
    """Log the sizes of the TOML file that differ from vLLM's, which count."""
    for section in ("scheduler", "kv"):
        given, usual = getattr(config, section), getattr(Config(), section)
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "num_blocks"):
            value, actual = getattr(given, name, None), getattr(sizes, name)
            if value not in (None, getattr(usual, name, None), actual):
                text = "%s.%s = %s of the TOML file has no effect: vLLM's is %s"
                _log.warning(text, section, name, value, actual)
