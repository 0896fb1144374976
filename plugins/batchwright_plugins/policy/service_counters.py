"""Virtual token counters: what accounts were served, made comparable."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from batchwright.option import option

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.queues import WaitingQueue
    from batchwright.request_view import RequestView

__all__ = ["ServiceCounters", "ServiceOptions"]


def _positive(_instance: object, _field: object, weights: Mapping[str, float]) -> None:
    for client, weight in weights.items():
        if not weight > 0:
            raise ValueError(f"expected weights > 0, got {weight!r} for {client!r}")


@frozen(kw_only=True)
class ServiceOptions:
    """Weights of service."""

    input_weight: float = option(1.0, "Weight of a computed prompt token.", ge=0)
    output_weight: float = option(2.0, "Weight of an output token.", ge=0)
    weights: Mapping[str, float] = option(
        Factory(dict),
        "Share of a client beside others, by client.",
        default_text="1 for every client",
        check=_positive,
    )


class ServiceCounters:
    """The counters of Sheng et al. 2024 (VTC, algorithm 2), one a client.

    ``(input_weight * prompt tokens + output_weight * decoded tokens) / weight``, plus lifts.
    A prompt counts from its admission on, so that the next admission of the same step knows
    of it; decoded tokens are those of ``ctx.usage``. Cached tokens and those computed again after a
    preemption are free.

    Args:
        ctx: The policy's; its accounts are clients.
        options: Weights of service.
    """

    def __init__(self, ctx: Context, options: ServiceOptions) -> None:
        self._ctx = ctx
        self._input_weight = options.input_weight
        self._output_weight = options.output_weight
        self._weights: dict[Hashable, float] = {}
        self._weights.update(options.weights)
        self._prompt_tokens: dict[Hashable, int] = {}
        self._lifts: dict[Hashable, float] = {}
        self._last_admitted: str | None = None

    def __getitem__(self, client: Hashable) -> float:
        inputs = self._prompt_tokens.get(client, 0)
        outputs = self._ctx.usage[client].decode_tokens
        tokens = self._input_weight * inputs + self._output_weight * outputs
        return tokens / self._weights.get(client, 1.0) + self._lifts.get(client, 0.0)

    def arrive(self, request: RequestView, queue: WaitingQueue) -> None:
        """Lift the client of a request that was just queued, if it had none waiting.

        To the least of those that wait, which is the head's, or if none does to that of
        the client that was admitted last: being away saves no credit.
        """
        if request not in queue:  # it waits for a key
            return
        ticket = queue.remove(request)
        head = queue.peek()
        least = self[self._last_admitted if head is None else head.client]
        behind = least - self[request.client]
        if behind > 0:
            self._lifts[request.client] = self._lifts.get(request.client, 0.0) + behind
        queue.restore(request, ticket)

    def admit(self, request: RequestView, hit: int) -> None:
        """Charge a prompt, once, and note who was admitted last.

        Args:
            request: The admitted request.
            hit: Tokens of it that are cached.
        """
        client = self._last_admitted = request.client
        if not request.num_preemptions and not request.num_policy_preemptions:
            charged = self._prompt_tokens.get(client, 0)
            self._prompt_tokens[client] = charged + request.num_prompt_tokens - hit
