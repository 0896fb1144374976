"""Lottery scheduling for Batchwright, and a bound on what one client may run."""

from batchwright.plugin import Gate, SchedulingPolicy, hookimpl

from batchwright_lottery.lottery import Lottery
from batchwright_lottery.max_per_client import MaxPerClient

__all__ = ["Lottery", "MaxPerClient"]


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy ``lottery``."""
    return [Lottery]


@hookimpl
def batchwright_register_gate() -> list[type[Gate]]:
    """Offer the gate ``max-per-client``."""
    return [MaxPerClient]
