"""The hooks: one a kind of component, named ``batchwright_register_<kind>``.

A hook is a factory: it is called once, at start, and returns the classes that a plugin offers,
or a ``LazyComponent`` in place of a class, which is then imported only when it is selected. It
is never called during a step. A plugin implements those it needs:

.. code-block:: python

    from batchwright.plugin import hookimpl

    @hookimpl
    def batchwright_register_policy():
        return [ShortestPrompt]
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

import pluggy

from batchwright import protocols

PROJECT = "batchwright"
HOOK_PREFIX = "batchwright_register_"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Mark a function of your plugin as the implementation of a hook."""


@hookspec
def batchwright_register_scheduler() -> Sequence[type[protocols.SchedulerBase]]:
    """Whole schedulers, selected by ``scheduler.use``."""


@hookspec
def batchwright_register_policy() -> Sequence[type[protocols.SchedulingPolicy]]:
    """Scheduling policies, selected by ``scheduler.policy``."""


@hookspec
def batchwright_register_gate() -> Sequence[type[protocols.Gate]]:
    """Admission gates, listed as ``[[gate]]``."""


@hookspec
def batchwright_register_control() -> Sequence[type[protocols.Control]]:
    """Step controls, listed as ``[[control]]``."""


@hookspec
def batchwright_register_limit() -> Sequence[type[protocols.Limit]]:
    """Limits on scheduled tokens, listed as ``[[limit]]``."""


@hookspec
def batchwright_register_resource() -> Sequence[type[protocols.Resource]]:
    """Resources beside KV, listed as ``[[resource]]``."""


@hookspec
def batchwright_register_victim() -> Sequence[type[protocols.Victim]]:
    """Victims, selected by ``scheduler.victim``."""


@hookspec
def batchwright_register_preemption() -> Sequence[type[protocols.Preemption]]:
    """Ways of preemption, selected by ``scheduler.preemption``."""


@hookspec
def batchwright_register_kv() -> Sequence[type[protocols.KVManager]]:
    """KV managers, selected by ``kv.manager``."""


@hookspec
def batchwright_register_hasher() -> Sequence[type[protocols.Hasher]]:
    """Block hashes, selected by ``kv.hasher``."""


@hookspec
def batchwright_register_eviction() -> Sequence[type[protocols.Eviction]]:
    """Orders of the free blocks, selected by ``kv.eviction``."""


@hookspec
def batchwright_register_executor() -> Sequence[type[protocols.Executor]]:
    """Executors, selected by ``executor.use``."""


@hookspec
def batchwright_register_attention() -> Sequence[type[protocols.AttentionBackend]]:
    """Attention backends, selected by ``attention.backend``."""


@hookspec
def batchwright_register_predictor() -> Sequence[type[protocols.Predictor]]:
    """Predictors, selected by ``scheduler.predictor``."""


@hookspec
def batchwright_register_estimator() -> Sequence[type[protocols.Estimator]]:
    """Estimators of step times, selected by ``scheduler.estimator``."""


@hookspec
def batchwright_register_workload() -> Sequence[type[protocols.Workload]]:
    """Workloads of simulations, selected by ``simulation.workload``."""


@hookspec
def batchwright_register_feature() -> Sequence[type[protocols.Feature]]:
    """Features, listed as ``[[feature]]``."""


@hookspec
def batchwright_register_observer() -> Sequence[type[protocols.Observer]]:
    """Observers, listed as ``[[observer]]``."""


@hookspec
def batchwright_register_command() -> Sequence[type[protocols.Command]]:
    """Subcommands of ``batchwright``."""


@cache
def component_kinds() -> dict[str, type[Any]]:
    """Kinds of components with their base classes, as the hooks above declare them."""
    hooks = {name: spec for name, spec in globals().items() if name.startswith(HOOK_PREFIX)}
    offered = {name: get_args(get_type_hints(spec)["return"])[0] for name, spec in hooks.items()}
    return {name.removeprefix(HOOK_PREFIX): get_args(cls)[0] for name, cls in offered.items()}
