"""Capabilities of components that each runtime supports.

A capability is a method that a component overrides, e.g. ``policy.running_to_preempt``. What
is not listed for a runtime it honours exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, Literal

from attrs import frozen
from importlib_metadata import entry_points

from batchwright.exceptions import ConfigError
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols.component import overrides
from batchwright.registration import Registration


@frozen
class Support:
    """Support of a capability by a runtime.

    Args:
        level: ``exact``, ``degraded`` (in a lesser way) or ``never``.
        why: The missing part; empty if there is none.
    """

    level: Literal["exact", "degraded", "never"] = "exact"
    why: str = ""


EXACT: Final = Support()

RUNTIMES: Final[dict[str, dict[str, Support]]] = {
    "engine": {},
    "simulator": {
        "attention.forward": Support("never", "a simulated step computes no attention"),
        "executor.execute": Support("never", "steps are computed by the simulated executor"),
        "feature.worker_side": Support("degraded", "it sees plans, but no computed tokens"),
    },
}
"""By runtime, the capabilities that it does not honour exactly; see ``runtimes`` for all."""

GROUP: Final = "batchwright.runtimes"
"""Entry points of other distributions: the name of a runtime, and its capabilities."""


@cache
def runtimes() -> Mapping[str, Mapping[str, Support]]:
    """Return the capabilities of every installed runtime that are not honoured exactly."""
    others = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {**others, **RUNTIMES}


def capabilities(found: Registration) -> Iterator[str]:
    """Return the capabilities of a component: the methods of its kind that its class overrides."""
    base = COMPONENT_KINDS[found.kind]
    methods = (n for n in dir(base) if not n.startswith("_") and callable(getattr(base, n)))
    for name in methods:
        if name != "Options" and overrides(found.cls, name):
            yield f"{found.kind}.{name}"


def support(runtime: str, capability: str) -> Support:
    """Return the support of a capability by a runtime."""
    return runtimes()[runtime].get(capability, EXACT)


def check_runtime(
    runtime: str,
    components: Iterable[Registration],
    accepted: Iterable[str],
    records: Mapping[str, Support] | None = None,
) -> None:
    """Refuse components that a runtime cannot do justice.

    Args:
        runtime: A name in ``runtimes()``.
        components: Those that are selected.
        accepted: Capabilities that may be degraded (``plugins.accept_degraded``).
        records: The capabilities that the runtime does not honour exactly; None: those in
            ``runtimes()``.

    Raises:
        ConfigError: Names class, method and runtime.
    """
    known = runtimes()[runtime] if records is None else records
    for found in components:
        for capability in capabilities(found):
            level = known.get(capability, EXACT)
            where = f"{found.cls.__name__}.{capability.partition('.')[2]}() ({found})"
            if level.level == "never":
                raise ConfigError(f"the {runtime} never calls {where}: {level.why}")
            if level.level == "degraded" and capability not in accepted:
                raise ConfigError(
                    f"the {runtime} honours {where} in part: {level.why}; if that will do, add "
                    f"{capability!r} to plugins.accept_degraded"
                )
