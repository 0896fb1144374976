"""Requests that a scan of vLLM's scheduler has admitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright_vllm.hooks import Hooks
    from batchwright_vllm.served_request import VllmRequest

__all__ = ["Admitted"]


class Admitted:
    """Finds admissions, and reports them; vLLM appends an admitted request to ``running``.

    Args:
        hooks: The hooks of vLLM's scheduler.

    Attributes:
        by_id: Requests that were admitted in this step, in order.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.by_id: dict[str, VllmRequest] = {}
        self._awaits_first: dict[str, VllmRequest] = {}

    def note(self, scheduled: Mapping[str, int] | None = None) -> None:
        """Report the requests that the scan has admitted since the last call.

        Args:
            scheduled: The scheduled tokens of the step, once vLLM has counted them as computed.
        """
        new = []
        for request in reversed(self._hooks.scheduler.running):
            served = self._hooks.served[request.request_id]
            if served.is_admitted:
                break
            new.append(served)
        for served in reversed(new):
            num_new = 0 if scheduled is None else scheduled[served.request_id]
            self._report(served, served.num_computed_tokens - num_new)

    def note_first_tokens(self) -> None:
        """Note the time of first tokens; after an update."""
        if self._awaits_first:
            now = self._hooks.clock.now()
            for request_id, served in list(self._awaits_first.items()):
                if served.num_output_tokens:
                    served.first_token_time = now
                    del self._awaits_first[request_id]

    def forget(self, request_id: str) -> None:
        """Drop a request that has ended."""
        self._awaits_first.pop(request_id, None)

    def _report(self, served: VllmRequest, hit: int) -> None:
        hooks, request_id = self._hooks, served.request_id
        served.is_admitted = True
        self.by_id[request_id] = served
        hooks.has_changed = True
        hooks.preempting.note_admission(served)
        if served.scheduled_time is None:
            served.scheduled_time = hooks.now
            served.num_cached_tokens = hit
            self._awaits_first[request_id] = served
        served.waiting_reason = ""
        hooks.events.on_admit(served.view, hit, len(hooks.block_ids(request_id)))
