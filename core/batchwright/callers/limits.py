"""Calls of limits."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from batchwright.callers.guard import Expected, Guard
from batchwright.protocols import Limit
from batchwright.request_view import RequestView
from batchwright.step_view import StepView


def _is_count(answer: object) -> bool:
    return type(answer) is int and answer >= 0


@define(eq=False, slots=False)
class Limits:
    """Asks limits; their minimum counts, and a fault belongs to the request."""

    _limits: Sequence[Limit]
    _guard: Guard

    def cut(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        """Cut the tokens of a request by each limit, in the order of the configuration.

        Raises:
            RequestFault: A limit failed on this request.
        """
        ask = self._guard.ask_about_request
        for limit in self._limits:
            if num_tokens > 1 or limit.affects_decode:
                expected = Expected(_is_count, f"0 to {num_tokens} tokens")
                most = ask(limit, limit.max_tokens, expected, request, num_tokens, view)
                num_tokens = min(num_tokens, most)
        return num_tokens
