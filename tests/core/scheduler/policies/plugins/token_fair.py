"""Virtual token counters (Sheng et al., Fairness in Serving Large Language Models)."""

from __future__ import annotations

from collections import Counter

from attrs import frozen

from batchwright import RequestView, SchedulingPolicy, hookimpl
from batchwright.option import option
from batchwright.queues import GroupedQueue


@frozen
class Options:
    """Options of the policy."""

    input_weight: float = option(1.0, "What a prompt token counts.", ge=0)
    output_weight: float = option(2.0, "What an output token counts.", ge=0)


class TokenFair(SchedulingPolicy):
    """Serves the client that has received the least weighted service.

    A client that comes back is lifted to the least of those that are there: being away
    saves no credit.
    """

    name = "token-fair"
    Options = Options

    def make_queue(self) -> GroupedQueue:
        self._num_live: Counter[str | None] = Counter()
        self._lifts: dict[str | None, float] = {}
        self._last_left = 0.0
        self._queue = GroupedQueue(self.account, self.served)
        return self._queue

    def account(self, request: RequestView) -> str | None:
        return request.client

    def served(self, client: str | None) -> float:
        """Weighted tokens that a client received; those computed again are on the house."""
        account = self.ctx.ledger[client]
        inputs = account.prefill_tokens - account.recomputed_tokens
        outputs = account.decode_tokens
        tokens = inputs * self.options.input_weight + outputs * self.options.output_weight
        return float(tokens + self._lifts.get(client, 0.0))

    def on_add(self, request: RequestView) -> None:
        client = request.client
        if not self._num_live[client]:
            others = [other for other, live in self._num_live.items() if live]
            least = min(map(self.served, others), default=self._last_left)
            behind = max(0.0, least - self.served(client))
            self._lifts[client] = self._lifts.get(client, 0.0) + behind
            self._queue.rekey_group(client)
        self._num_live[client] += 1

    def on_finish(self, request: RequestView) -> None:
        self._num_live[request.client] -= 1
        self._last_left = self.served(request.client)


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [TokenFair]
