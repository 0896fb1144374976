"""Tokens and blocks of steps, charged to requests and to their accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from batchwright.callers.guard import RequestFault

if TYPE_CHECKING:
    from batchwright_vllm.hooks import Hooks
    from batchwright_vllm.served_request import VllmRequest

__all__ = ["Charges"]


class Charges:
    """Counts recomputed tokens, and what each account received if the policy has accounts.

    Args:
        hooks: The hooks of vLLM's scheduler.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._keeps_accounts = hooks.policy.keeps_accounts
        self._recomputing: dict[str, VllmRequest] = {}

    def open(self, served: VllmRequest) -> None:
        """Give a new request its account; a request on which the policy fails is ended."""
        if self._keeps_accounts:
            try:
                account = self._hooks.policy.account(served.view)
            except RequestFault as fault:
                self._hooks.end(served.request_id, fault.detail)
            else:
                served.usage = self._hooks.usage.open(account)

    def preempted(self, served: VllmRequest, lost_tokens: int) -> None:
        """Note the tokens that a request has to compute again."""
        served.high_water = max(served.high_water, lost_tokens)
        self._recomputing[served.request_id] = served
        self._hold(served, 0)

    def finished(self, served: VllmRequest) -> None:
        """Note that a request holds no blocks any more."""
        self._recomputing.pop(served.request_id, None)
        self._hold(served, 0)

    def planned(self, tokens: Mapping[str, int]) -> None:
        """Charge the scheduled tokens of a step, which vLLM has counted as computed."""
        if self._recomputing:
            for request_id in self._recomputing.keys() & tokens.keys():
                self._count_again(self._recomputing[request_id], tokens[request_id])
        if self._keeps_accounts:
            for request_id, num_tokens in tokens.items():
                self._charge(self._hooks.served[request_id], num_tokens)

    def _count_again(self, served: VllmRequest, num_tokens: int) -> None:
        """Count the tokens that had been computed before a preemption."""
        missing = served.high_water - served.num_computed_tokens
        again = max(0, min(num_tokens, missing + num_tokens))
        served.num_recomputed_tokens += again
        if served.usage is not None:
            served.usage.recomputed_tokens += again
        if missing <= 0:
            del self._recomputing[served.request_id]

    def _charge(self, served: VllmRequest, num_tokens: int) -> None:
        usage = served.usage
        if usage is None:
            return
        if served.request_id in self._hooks.admitted.by_id:
            usage.cached_tokens += served.num_computed_tokens - num_tokens
        if num_tokens > 1:
            usage.prefill_tokens += num_tokens
        else:
            usage.add_decode_tokens(num_tokens)
        self._hold(served, len(self._hooks.block_ids(served.request_id)))

    def _hold(self, served: VllmRequest, num_blocks: int) -> None:
        if served.usage is not None and num_blocks != served.num_blocks:
            served.usage.change_num_blocks(num_blocks - served.num_blocks)
            served.num_blocks = num_blocks
