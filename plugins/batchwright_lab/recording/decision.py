"""The decisions of one step, to compare and to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

if TYPE_CHECKING:
    from batchwright.step_record import StepRecord
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["Decision"]

_SHOWN: Final = 6


@frozen
class Decision:
    """A step's decisions. Two are equal if they schedule, admit and preempt alike.

    Args:
        grants: Tokens, by request.
        admitted: By request that was admitted, tokens that were there; in order.
        preempted: Requests that lost their blocks; in order.
    """

    grants: Mapping[str, int]
    admitted: Mapping[str, int]
    preempted: tuple[str, ...]

    @classmethod
    def recorded(cls, trail: DecisionTrail) -> Decision:
        """That of the last line of a log."""
        return cls(dict(trail.grants), dict(trail.admitted), tuple(trail.preempted))

    @classmethod
    def made(cls, record: StepRecord) -> Decision:
        """That of a step that was just planned."""
        grants = record.plan.num_scheduled_tokens
        admitted = {
            request.request_id: request.num_computed_tokens - grants[request.request_id]
            for request in record.admitted
        }
        return cls(dict(grants), admitted, tuple(record.plan.preempted_req_ids))

    def is_like(self, other: Decision) -> bool:
        """Return True if two are equal, orders of admission and preemption included."""
        return (
            self.grants == other.grants
            and list(self.admitted.items()) == list(other.admitted.items())
            and self.preempted == other.preempted
        )

    def told(self, other: Decision) -> Iterator[str]:
        """Say it, as far as it differs from another."""
        if list(self.admitted) != list(other.admitted):
            yield "admits " + _listed(f"{name!r}" for name in self.admitted)
        for name, hit in self.admitted.items():
            if other.admitted.get(name, hit) != hit:
                yield f"finds {hit} tokens of {name!r} cached"
        if self.preempted != other.preempted:
            yield "preempts " + _listed(f"{name!r}" for name in self.preempted)
        differ = {
            name: self.grants.get(name, 0)
            for name in (*self.grants, *other.grants)
            if self.grants.get(name, 0) != other.grants.get(name, 0)
        }
        if differ:
            yield "schedules " + _listed(f"{name!r} {count}" for name, count in differ.items())


def _listed(items: Any) -> str:
    found = list(items)
    rest = len(found) - _SHOWN
    shown = ", ".join(found[:_SHOWN]) or "none"
    return f"{shown} and {rest} more" if rest > 0 else shown
