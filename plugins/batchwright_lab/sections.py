"""The section of a configuration that simulations read."""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

from batchwright.config import Config, Section, Use
from batchwright.default_plugins import AUTO
from batchwright.option import option

__all__ = ["SimulationSection", "true_estimator"]

SIMULATED_EXECUTOR: Final = "simulated"
"""Computes the plans of a simulation."""


@frozen(kw_only=True)
class SimulationSection(Section):
    """What ``batchwright simulate`` runs on.

    Args:
        workload: What arrives; auto: none is chosen, --workload names it.
        estimator: Estimator of the true step times; auto: that of scheduler.estimator.
        oracle_estimator: Whether components may ask the true one; reports say so.
        executor: What computes the plans.
        max_tokens: Cap on output tokens of a request that brings none. class: the least
            power of two, and at least 256, that holds the workload's longest output;
            drawn: one of such classes by lot, that holds the request's own; exact: the
            true length, which reports say.
        until: Simulated time at which it ends; whatever runs is left unfinished.
        max_queue: Waiting requests that end it: more arrives than can be served.
        fast_forward: Whether steps in which nothing is decided are computed many at once.
    """

    name = "simulation"
    components = {"estimator": "estimator"}

    workload: str = AUTO
    estimator: str = AUTO
    oracle_estimator: bool = False
    executor: str = SIMULATED_EXECUTOR
    max_tokens: int | Literal["class", "drawn", "exact"] = option("class", unit="tokens")
    until: float | None = option(None, unit="seconds", gt=0, default_text="the end")
    max_queue: int | None = option(None, unit="requests", ge=1, default_text="no limit")
    fast_forward: bool = True


def true_estimator(config: Config) -> Use:
    """Return the estimator whose step times a simulation runs on."""
    name = config.section(SimulationSection).estimator
    if name == AUTO:
        return config.once("estimator")
    return config.named("estimator", name, "simulation.estimator")
