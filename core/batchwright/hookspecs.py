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

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pluggy

from batchwright import protocols

PROJECT: Final = "batchwright"
HOOK_PREFIX: Final = "batchwright_register_"

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Mark a function of your plugin as the implementation of a hook."""

COMPONENT_KINDS: Final[dict[str, type[Any]]] = {
    "scheduler": protocols.SchedulerBase,
    "policy": protocols.SchedulingPolicy,
    "gate": protocols.Gate,
    "control": protocols.Control,
    "limit": protocols.Limit,
    "resource": protocols.Resource,
    "victim": protocols.Victim,
    "preemption": protocols.Preemption,
    "kv": protocols.KVManager,
    "hasher": protocols.Hasher,
    "eviction": protocols.Eviction,
    "executor": protocols.Executor,
    "attention": protocols.AttentionBackend,
    "predictor": protocols.Predictor,
    "estimator": protocols.Estimator,
    "workload": protocols.Workload,
    "feature": protocols.Feature,
    "observer": protocols.Observer,
    "command": protocols.Command,
}
"""Kinds of components, each with the contract that its classes derive from."""


@pluggy.HookspecMarker(PROJECT)
def _register() -> Sequence[type[Any]]:
    """Return classes of a kind, or lazy components in their place."""
    raise NotImplementedError  # plugins implement it


HOOKS: Final = type("Hooks", (), {HOOK_PREFIX + kind: _register for kind in COMPONENT_KINDS})
"""The specification of every hook: none takes arguments."""
