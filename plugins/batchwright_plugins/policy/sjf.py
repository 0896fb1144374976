"""Shortest job first, aged."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from batchwright.option import option
from batchwright_plugins.policy.cache_aware_policy import CacheAwarePolicy

if TYPE_CHECKING:
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView

__all__ = ["Sjf"]


@frozen
class Options:
    """Options of sjf."""

    size: Literal["prompt", "uncached", "predicted"] = option(
        "prompt",
        "Size of a job: its prompt, its uncached prompt tokens, or its prompt and predicted "
        "outputs.",
    )
    aging: float = option(
        100.0, "Reduction of a size for each second of waiting.", unit="tokens/second", ge=0, lt=inf
    )


class Sjf(CacheAwarePolicy):
    """Shortest job first: the smallest ``size - aging * waited`` is next.

    All requests age alike, so the order of two never changes while they wait, and the key is
    ``size + aging * arrival_time``. With equal sizes that is first come, first served. Shortest
    first has the least mean waiting time of all orders without interruption (Smith 1956). Users
    of vLLM and SGLang patch it in as "shortest prompt first", and Fu et al. 2024 order by
    predicted length. A preempted request returns to its own place.

    With ``aging = 0`` it starves large jobs while smaller ones keep coming. Otherwise a job of
    size S is passed only by jobs of size s that arrive less than ``(S - s) / aging`` seconds
    after it. O(log waiting).
    """

    name = "sjf"
    Options = Options

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        if options.size != "uncached":
            self.idle_methods = ("on_admit", "on_tokens", "on_finish")

    def key(self, request: RequestView) -> Key:
        aging: float = self.options.aging
        return self._size(request) + aging * request.arrival_time

    def _size(self, request: RequestView) -> float:
        match self.options.size:
            case "uncached":
                return request.num_prompt_tokens - self.watch.hit(request)
            case "predicted":
                return request.num_prompt_tokens + self.ctx.predict(request)[0]
        return request.num_prompt_tokens
