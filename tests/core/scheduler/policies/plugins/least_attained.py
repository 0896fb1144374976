"""Least attained service by program (Autellix, PLAS)."""

from __future__ import annotations

from batchwright.plugin import RequestView, SchedulingPolicy, hookimpl

from batchwright.queues import GroupedQueue


class LeastAttained(SchedulingPolicy):
    """Serves the program whose earlier requests have received the least service.

    What a program has received outlives its requests, since an agent's next call comes
    when the last one has ended. A request without a program is a new program.
    """

    name = "least-attained"

    def make_queue(self) -> GroupedQueue:
        return GroupedQueue(self.program, self.attained)

    def program(self, request: RequestView) -> str | None:
        """What a request belongs to."""
        return request.group

    def attained(self, program: str | None) -> float:
        """Tokens computed for a program's ended requests."""
        if program is None:
            return 0.0
        return float(self.ctx.group(program).get("attained", 0))

    def on_finish(self, request: RequestView) -> None:
        if request.group is not None:
            attained = self.attained(request.group) + request.num_computed_tokens
            self.ctx.group(request.group)["attained"] = attained


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [LeastAttained]
