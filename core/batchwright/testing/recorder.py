"""The record of a run, step by step, in a form that two runs can be compared in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

if TYPE_CHECKING:
    from batchwright.messages import SchedulerOutput, StepOutputs


@define
class Recorder:
    """Keep plans and updates as plain values.

    Attributes:
        plans: Every plan, all of its fields, as nested dicts, lists and numbers.
        grants: Of every plan, tokens by request id.
        outputs: Output tokens by request id, as they were delivered.
        finished: By request id, how it ended: ``reason`` or ``reason/detail``.
    """

    plans: list[dict[str, Any]] = field(factory=list)
    grants: list[dict[str, int]] = field(factory=list)
    outputs: dict[str, list[int]] = field(factory=dict)
    finished: dict[str, str] = field(factory=dict)

    def planned(self, plan: SchedulerOutput) -> None:
        """Keep a plan."""
        self.plans.append(plain(plan))
        self.grants.append(dict(plan.num_scheduled_tokens))

    def updated(self, outputs: StepOutputs) -> None:
        """Keep what a step delivered."""
        for request_id, tokens in zip(outputs.req_ids, outputs.new_token_ids, strict=True):
            self.outputs.setdefault(request_id, []).extend(tokens)
        for request_id, finish in outputs.finished.items():
            self.finished[request_id] = f"{finish.reason}/{finish.detail}"


def plain(plan: SchedulerOutput) -> dict[str, Any]:
    """A plan as plain values that keep no reference to it; the order of requests counts."""
    values = asdict(plan, value_serializer=lambda _, __, value: _listed(value))
    values["num_scheduled_tokens"] = list(plan.num_scheduled_tokens.items())
    return values


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
