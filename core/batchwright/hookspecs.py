"""The hooks: one a kind of component, named ``batchwright_register_<kind>``.

A hook is a factory: it is called once, at start, and returns the classes that a
plugin offers. It is never called during a step. A plugin implements those it needs:

.. code-block:: python

    from batchwright import hookimpl

    @hookimpl
    def batchwright_register_policy():
        return [ShortestPrompt]
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from batchwright.protocols import (
    AttentionBackend,
    Command,
    Control,
    Eviction,
    Executor,
    Gate,
    Hasher,
    KVManager,
    Limit,
    Observer,
    Preemption,
    Resource,
    SchedulingPolicy,
    Victim,
)

PROJECT = "batchwright"
HOOK_PREFIX = "batchwright_register_"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of your plugin as the implementation of a hook."""


@hookspec
def batchwright_register_policy() -> Sequence[type[SchedulingPolicy]]:
    """Scheduling policies, selected by ``scheduler.policy``."""
    raise NotImplementedError


@hookspec
def batchwright_register_gate() -> Sequence[type[Gate]]:
    """Admission gates, listed as ``[[gate]]``."""
    raise NotImplementedError


@hookspec
def batchwright_register_control() -> Sequence[type[Control]]:
    """Step controls, listed as ``[[control]]``."""
    raise NotImplementedError


@hookspec
def batchwright_register_limit() -> Sequence[type[Limit]]:
    """Limits on a grant, listed as ``[[limit]]``."""
    raise NotImplementedError


@hookspec
def batchwright_register_resource() -> Sequence[type[Resource]]:
    """Resources beside KV, listed as ``[[resource]]``."""
    raise NotImplementedError


@hookspec
def batchwright_register_victim() -> Sequence[type[Victim]]:
    """Victims, selected by ``scheduler.victim``."""
    raise NotImplementedError


@hookspec
def batchwright_register_preemption() -> Sequence[type[Preemption]]:
    """Ways of preemption, selected by ``scheduler.preemption``."""
    raise NotImplementedError


@hookspec
def batchwright_register_kv() -> Sequence[type[KVManager]]:
    """KV managers, selected by ``kv.manager``."""
    raise NotImplementedError


@hookspec
def batchwright_register_hasher() -> Sequence[type[Hasher]]:
    """Block hashes, selected by ``kv.hasher``."""
    raise NotImplementedError


@hookspec
def batchwright_register_eviction() -> Sequence[type[Eviction]]:
    """Orders of the free blocks, selected by ``kv.eviction``."""
    raise NotImplementedError


@hookspec
def batchwright_register_executor() -> Sequence[type[Executor]]:
    """Executors, selected by ``executor.use``."""
    raise NotImplementedError


@hookspec
def batchwright_register_attention() -> Sequence[type[AttentionBackend]]:
    """Attention backends, selected by ``attention.backend``."""
    raise NotImplementedError


@hookspec
def batchwright_register_observer() -> Sequence[type[Observer]]:
    """Observers, listed as ``[[observer]]``."""
    raise NotImplementedError


@hookspec
def batchwright_register_command() -> Sequence[type[Command]]:
    """Subcommands of ``batchwright``."""
    raise NotImplementedError
