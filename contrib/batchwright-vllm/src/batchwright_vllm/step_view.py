"""vLLM's scheduler as components see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from batchwright.request import Finish
from batchwright.request_view import RequestView
from batchwright.step_view import Running, StepView

if TYPE_CHECKING:
    from vllm.v1.request import Request

    from batchwright_vllm.hooks import Hooks

__all__ = ["VllmRunning", "VllmStepView"]


class VllmRunning(Running):
    """Running requests of vLLM in order of admission; no copy is made.

    Args:
        hooks: The scheduler's hooks.
        among: Those of them that count; None: all.
    """

    __slots__ = ("_among", "_hooks")

    def __init__(self, hooks: Hooks, among: Sequence[Request] | None = None) -> None:
        self._hooks = hooks
        self._among = among

    def _requests(self) -> Sequence[Request]:
        return self._hooks.admission_order() if self._among is None else self._among

    def __len__(self) -> int:
        return len(self._requests())

    def __iter__(self) -> Iterator[RequestView]:
        served = self._hooks.served
        return (served[request.request_id].view for request in self._requests())

    def __reversed__(self) -> Iterator[RequestView]:
        served = self._hooks.served
        return (served[request.request_id].view for request in reversed(self._requests()))

    def __contains__(self, request: object) -> bool:
        if not isinstance(request, RequestView):
            return False
        served = self._hooks.served.get(request.request_id)
        if served is None or served.view is not request:
            return False
        return served.is_running if self._among is None else served.request in self._among


class VllmStepView(StepView):
    """The step that vLLM's scheduler plans.

    Tokens of the step that is being planned are counted where a gate, a limit or a control
    takes part; else ``num_tokens_left`` is the whole budget until the step is planned.

    Args:
        hooks: The scheduler's hooks.
    """

    __slots__ = ("_hooks", "_running")

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._running = VllmRunning(hooks)

    @property
    def _pool(self) -> Any:
        return self._hooks.scheduler.kv_cache_manager.block_pool

    @property
    def running(self) -> VllmRunning:
        return self._running

    @property
    def step_id(self) -> int:
        return self._hooks.step_id

    @property
    def now(self) -> float:
        return self._hooks.now

    @property
    def num_running(self) -> int:
        return len(self._hooks.scheduler.running)

    @property
    def num_waiting(self) -> int:
        scheduler = self._hooks.scheduler
        return len(scheduler.waiting) + len(scheduler.kv_holding_waiting)

    @property
    def num_parked(self) -> int:
        return self._hooks.queue.num_parked

    @property
    def num_in_flight(self) -> int:
        return self._hooks.num_in_flight

    @property
    def num_prompt_tokens_waiting(self) -> int:
        return self._hooks.queue.num_prompt_tokens

    @property
    def num_usable_blocks(self) -> int:
        return int(self._pool.num_gpu_blocks) - 1

    @property
    def num_free_blocks(self) -> int:
        return int(self._pool.get_num_free_blocks())

    @property
    def num_owed_blocks(self) -> int:
        size, owed = self._hooks.sizes.block_size, 0
        for request in self._hooks.scheduler.running:
            if request.is_prefill_chunk:
                held = len(self._hooks.block_ids(request.request_id))
                owed += max(0, -(-request.num_tokens // size) - held)
        return owed

    @property
    def num_tokens_left(self) -> int:
        return self._hooks.budget - self._hooks.num_scheduled_tokens

    @property
    def num_scheduled_tokens(self) -> int:
        return self._hooks.num_scheduled_tokens

    @property
    def num_admitted(self) -> int:
        return len(self._hooks.admitted.by_id)

    @property
    def next_timer(self) -> float | None:
        return self._hooks.clock_timers.next_time

    @property
    def is_paused(self) -> bool:
        return self._hooks.scheduler.pause_state.name != "UNPAUSED"

    @property
    def unreported_ends(self) -> Mapping[str, Finish]:
        return {}

    @property
    def failed_ids(self) -> Sequence[str]:
        return ()

    def next_waiting(self, count: int) -> list[RequestView]:
        return self._hooks.policy.queue.first(count)

    def request(self, request_id: str) -> RequestView | None:
        served = self._hooks.served.get(request_id)
        return None if served is None else served.view

    def block_ids(self, request: RequestView) -> list[int]:
        return self._hooks.block_ids(request.request_id)

    def num_own_blocks(self, request: RequestView) -> int:
        groups = self._hooks.scheduler.kv_cache_manager.get_blocks(request.request_id).blocks
        return sum(block.ref_cnt == 1 for block in groups[0])

    def published_blocks(self) -> Iterator[int]:
        return (b.block_id for b in self._pool.blocks if b.block_hash is not None)

    def audit(self) -> Iterator[str]:
        return iter(())
