"""Preemption in vLLM's scheduler: by the policy, and of the victim that a plugin names."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from vllm.v1.core.sched.request_queue import SchedulingPolicy

from batchwright.callers.victims import Victims
from batchwright.default_plugins import DEFAULT_VICTIM
from batchwright_vllm.step_view import VllmRunning

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from batchwright_vllm.hooks import Hooks
    from batchwright_vllm.served_request import VllmRequest

__all__ = ["Preempting"]

_DOOMED: Final = sys.maxsize
"""A priority that vLLM preempts first."""


class Preempting:
    """Has vLLM preempt the requests that policy and victim plugin name.

    vLLM preempts, under ``priority``, the running request of the greatest value. If blocks run
    out, the victim has that value for a moment. Under the default victim and without an order of
    running requests that is what vLLM does under ``fcfs``, and nothing is changed.

    Args:
        hooks: The hooks of vLLM's scheduler.
    """

    def __init__(self, hooks: Hooks) -> None:
        components = hooks.components
        self._hooks = hooks
        self._policy = hooks.policy
        self._victims = Victims(components.victim, components.preemption, hooks.guard)
        self._running = VllmRunning(hooks)
        self._doomed: Request | None = None
        self._most = hooks.sizes.max_policy_preemptions
        self._next_order = 0
        self.names_victims = components.victim.name != DEFAULT_VICTIM or hooks.policy.orders_running
        self.is_needed = self._policy.yields or self._policy.preempts or self._policy.orders_running
        hooks.scheduler.policy = SchedulingPolicy.FCFS
        if self.names_victims:
            hooks.scheduler.policy = SchedulingPolicy.PRIORITY
            self._name_victims_in(hooks.scheduler.kv_cache_manager)

    def begin(self) -> None:
        """Preempt what the policy wants to have preempted, and order the running requests."""
        hooks, policy = self._hooks, self._policy
        if hooks.has_changed and hooks.queue:
            hooks.has_changed = False
            for one in policy.to_yield(hooks.view) if policy.yields else ():
                served = hooks.served.get(one.request.request_id)
                if served is not None and served.is_running:
                    self._give_way(served)
            if policy.preempts:
                self._make_place()
        if policy.orders_running:
            self._order_running()

    def spare(self) -> None:
        """Restore the priority of the request that was named last."""
        if self._doomed is not None:
            self._doomed.priority = self._hooks.served[self._doomed.request_id].priority
            self._doomed = None

    def admission_order(self) -> list[Request]:
        """Return the running requests in order of admission."""
        served = self._hooks.served
        running: list[Request] = self._hooks.scheduler.running
        if not self._policy.orders_running:
            return running
        return sorted(running, key=lambda request: served[request.request_id].running_order)

    def note_admission(self, served: VllmRequest) -> None:
        """Give an admitted request its place in the order of admission."""
        served.running_order = self._next_order
        self._next_order += 1

    # -- Preemption by the policy ----------------------------------------------------

    def _give_way(self, served: VllmRequest) -> bool:
        """Preempt a running request, unless it has become immune."""
        if served.num_policy_preemptions >= self._most:
            return False
        served.num_policy_preemptions += 1
        scheduler = self._hooks.scheduler
        scheduler.running.remove(served.request)
        scheduler.preempt(served.request, "policy")
        return True

    def _make_place(self) -> None:
        """Preempt running requests for the head of the queue, if it lacks a seat or blocks."""
        hooks = self._hooks
        head = hooks.queue.head_view()
        if head is None:
            return
        scheduler, free = hooks.scheduler, hooks.view.num_free_blocks
        has_seat = len(scheduler.running) < scheduler.max_num_active_reqs
        size = hooks.sizes.block_size
        lacking = -(-head.num_tokens // size) - hooks.services.prefix_hit(head) // size - free
        chosen: dict[str, VllmRequest] = {}
        while not has_seat or lacking > 0:
            victim = self._movable_victim(head, chosen)
            if victim is None:
                return
            chosen[victim.request_id] = victim
            has_seat = True
            lacking -= hooks.view.num_own_blocks(victim.view)
        for victim in chosen.values():
            self._give_way(victim)

    def _movable_victim(self, head: Any, but: dict[str, VllmRequest]) -> VllmRequest | None:
        """Return the running request that gives way to the head of the queue next."""
        served = self._hooks.served
        movable = [
            served[request.request_id]
            for request in self.admission_order()
            if served[request.request_id].num_policy_preemptions < self._most
            and request.request_id not in but
        ]
        if not movable:
            return None
        among = VllmRunning(self._hooks, [one.request for one in movable])
        named = self._victims.choose(among, head, self._hooks.view)
        return served[named.request_id] if self._policy.may_displace(head, named) else None

    def _order_running(self) -> None:
        """Put the running requests in the policy's order; one that makes it fail is ended."""
        scheduler, served = self._hooks.scheduler, self._hooks.served
        order = self._policy.running_order([served[r.request_id] for r in self.admission_order()])
        for failed, fault in order.failed:
            self._hooks.end(failed.request_id, fault.detail)
        ordered = [*order.requests, *(failed for failed, _ in order.failed)]
        scheduler.running[:] = [one.request for one in ordered]

    # -- Victims of a shortage -------------------------------------------------------

    def _name_victims_in(self, manager: Any) -> None:
        """Name the victim when a running request gets no blocks."""
        allocate_slots = manager.allocate_slots

        @wraps(allocate_slots)
        def allocate(request: Request, *args: Any, **kwargs: Any) -> Any:
            blocks = allocate_slots(request, *args, **kwargs)
            if blocks is None and request.status.name == "RUNNING":
                self._name_victim(request)
            return blocks

        manager.allocate_slots = allocate

    def _name_victim(self, request: Request) -> None:
        self.spare()
        served = self._hooks.served
        view = served[request.request_id].view
        named = self._victims.choose(self._running, view, self._hooks.view)
        self._doomed = served[named.request_id].request
        self._doomed.priority = _DOOMED
