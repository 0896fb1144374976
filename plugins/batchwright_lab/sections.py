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
    """The inputs of ``batchwright simulate``.

    Args:
        workload: Source of the arrivals; auto: none, --workload names it.
        estimator: Estimator of the true step times; auto: that of scheduler.estimator.
        oracle_estimator: True if components may use the true one; reports then say so.
        executor: Component that computes the plans.
        max_tokens: Cap on output tokens of a request without one. class: the least power of
            two, and at least 256, that holds the workload's longest output; drawn: a random one
            of such classes that holds the request's own; exact: the true length, and reports
            say so.
        until: Simulated time at which it ends; running requests stay unfinished.
        max_queue: Waiting requests above which the simulation ends.
        fast_forward: True if steps without a decision are computed many at once.
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
