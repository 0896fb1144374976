"""What each host honours of what components can do.

A capability is a method that a component overrides, e.g. ``policy.running_to_preempt``. What
is not listed for a host it honours exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.hookspecs import component_kinds
from batchwright.protocols.component import overrides
from batchwright.registration import Registration


@frozen
class Support:
    """How a host honours a capability.

    Args:
        level: ``exact``, ``degraded`` (in a lesser way) or ``never``.
        why: What is missing; empty if nothing is.
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
"""By host, the capabilities that it does not honour exactly."""


def capabilities(found: Registration) -> Iterator[str]:
    """What a component can do: the methods of its kind that its class overrides."""
    base = component_kinds()[found.kind]
    methods = (n for n in dir(base) if not n.startswith("_") and callable(getattr(base, n)))
    for name in methods:
        if name != "Options" and overrides(found.cls, name):
            yield f"{found.kind}.{name}"


def support(host: str, capability: str) -> Support:
    """How a host honours a capability."""
    return RUNTIMES[host].get(capability, EXACT)


def check_runtime(host: str, components: Iterable[Registration], accepted: Iterable[str]) -> None:
    """Refuse components that a host cannot do justice.

    Args:
        host: A key of ``HOSTS``.
        components: Those that are selected.
        accepted: Capabilities that may be degraded (``plugins.accept_degraded``).

    Raises:
        ConfigError: Names class, method and host.
    """
    for found in components:
        for capability in capabilities(found):
            level = support(host, capability)
            where = f"{found.cls.__name__}.{capability.partition('.')[2]}() ({found})"
            if level.level == "never":
                raise ConfigError(f"the {host} never calls {where}: {level.why}")
            if level.level == "degraded" and capability not in accepted:
                raise ConfigError(
                    f"the {host} honours {where} in part: {level.why}; if that will do, add "
                    f"{capability!r} to plugins.accept_degraded"
                )
