"""Virtual token counters: what accounts were served, made comparable."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["ServiceCounters", "positive_weights"]


def positive_weights(_instance: object, _field: object, weights: Mapping[str, float]) -> None:
    """Check the option ``weights``.

    Raises:
        ValueError: A client could never be served.
    """
    for client, weight in weights.items():
        if not weight > 0:
            raise ValueError(f"expected weights > 0, got {weight!r} for {client!r}")


class ServiceCounters:
    """The counters of Sheng et al. 2024 (VTC, algorithm 2), read from the ledger.

    ``(input_weight * computed prompt tokens + output_weight * decoded tokens) / weight``,
    plus lifts. Cached tokens and those computed again after a preemption are free.

    Args:
        ctx: The policy's.
        input_weight: What a prompt token counts.
        output_weight: What an output token counts.
        weights: Weights of accounts; 1 where none is given.
    """

    def __init__(
        self, ctx: Context, input_weight: float, output_weight: float, weights: Mapping[str, float]
    ) -> None:
        self._ctx = ctx
        self._input_weight = input_weight
        self._output_weight = output_weight
        self._weights: dict[Hashable, float] = {}
        self._weights.update(weights)
        self._lifts: dict[Hashable, float] = {}

    def __getitem__(self, account: Hashable) -> float:
        served = self._ctx.ledger[account]
        inputs = served.prefill_tokens - served.recomputed_tokens
        tokens = self._input_weight * inputs + self._output_weight * served.decode_tokens
        return tokens / self._weights.get(account, 1.0) + self._lifts.get(account, 0.0)

    def lift(self, account: Hashable, least: float) -> None:
        """Raise an account's counter to a value, if it is below: being away saves nothing."""
        behind = least - self[account]
        if behind > 0:
            self._lifts[account] = self._lifts.get(account, 0.0) + behind
