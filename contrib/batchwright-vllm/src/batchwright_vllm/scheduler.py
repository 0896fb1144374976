"""vLLM's scheduler with Batchwright's components at its points of decision."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler as _VllmAsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as _VllmScheduler

from batchwright_vllm.components import find_config, sizes_of, with_sizes
from batchwright_vllm.hooks import Hooks
from batchwright_vllm.requirements import check_members

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.request import Request

__all__ = ["AsyncScheduler", "Scheduler", "SyncScheduler"]

_log = logging.getLogger("batchwright.vllm")


class _Plugged(_VllmScheduler):
    """The overrides; what they do not know they hand on unchanged."""

    def __init__(self, vllm_config: VllmConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        check_members(self)
        config = find_config(vllm_config)
        num_blocks = self.kv_cache_manager.block_pool.num_gpu_blocks
        sizes = sizes_of(vllm_config, config, num_blocks, self.block_size)
        self.hooks = hooks = Hooks(self, with_sizes(config, sizes), sizes)
        self.waiting = hooks.queue
        if hooks.budgets.is_needed:
            self._reserve_prefill_lookahead = self._allow  # type: ignore[method-assign]
        hooks.start()
        source = config.source or "no TOML file"
        _log.info("%s: %s (%s)", type(self).__name__, hooks.components, source)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        hooks = self.hooks
        hooks.begin()
        try:
            output = super().schedule(*args, **kwargs)
        finally:
            hooks.end_scans()
        hooks.planned(output)
        return output

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = super().update_from_output(scheduler_output, *args, **kwargs)
        self.hooks.updated(outputs)
        return outputs

    def add_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.request_id in self.requests:  # another piece of a session
            super().add_request(request, *args, **kwargs)
            return
        served = self.hooks.add(request)
        super().add_request(request, *args, **kwargs)
        self.hooks.added(served)

    def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
        finished = super().finish_requests(*args, **kwargs)
        self.hooks.flush_if_idle()
        return finished

    def preempt(self, request: Request, cause: str) -> None:
        """Preempt a request that was taken out of ``running``, for a reason of a plugin's."""
        self.hooks.cause = cause
        self._preempt_request(request, time.monotonic())

    def _preempt_request(self, request: Request, *args: Any, **kwargs: Any) -> None:
        hooks = self.hooks
        lost = request.num_computed_tokens
        hooks.preempting.spare()
        super()._preempt_request(request, *args, **kwargs)
        hooks.note_preemption(hooks.served[request.request_id], lost)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        answer = super()._free_request(request, *args, **kwargs)
        self.hooks.finished(request)
        return answer

    def _handle_blocked_waiting_request(self, request: Request, *args: Any, **kwargs: Any) -> bool:
        is_ready = super()._handle_blocked_waiting_request(request, *args, **kwargs)
        return is_ready and self.hooks.admission.may_enter(request)

    def _get_local_prefix_cache_hit(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_local_prefix_cache_hit(request, *args, **kwargs)
        self.hooks.admission.note_hit(found[0], found[1])
        return found

    def _ec_transfer_pending(
        self, request: Request, num_computed_tokens: int, *args: Any, **kwargs: Any
    ) -> bool:
        is_pending = super()._ec_transfer_pending(request, num_computed_tokens, *args, **kwargs)
        return is_pending or not self.hooks.admission.may_take(request, num_computed_tokens)

    def _allow(
        self,
        request: Request,
        num_computed_tokens: int,
        num_new_tokens: int,
        *args: Any,
        **kwargs: Any,
    ) -> int:
        """Stand for ``_reserve_prefill_lookahead`` where components cut tokens."""
        if num_new_tokens:
            num_new_tokens = self.hooks.budgets.allowance(request, num_new_tokens)
        return int(
            super()._reserve_prefill_lookahead(
                request, num_computed_tokens, num_new_tokens, *args, **kwargs
            )
        )

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        self.hooks.close()
        super().shutdown(*args, **kwargs)


class SyncScheduler(_Plugged):
    """Plans a step once the one before is updated."""


class AsyncScheduler(_Plugged, _VllmAsyncScheduler):
    """Plans a step while the one before is computed."""


class Scheduler:
    """The class to name: ``--scheduler-cls batchwright_vllm.Scheduler``.

    It makes the variant that vLLM's final configuration asks for.
    """

    def __new__(cls, vllm_config: VllmConfig, *args: Any, **kwargs: Any) -> Any:
        is_async = vllm_config.scheduler_config.async_scheduling
        return (AsyncScheduler if is_async else SyncScheduler)(vllm_config, *args, **kwargs)
