"""Conformance of the two methods by which a KV manager serves many decodes at once."""

from __future__ import annotations

from typing import Any, cast

from batchwright.protocols import KVManager
from batchwright.protocols.component import overrides
from batchwright.request import Request
from batchwright.request_view import RequestView
from batchwright.scheduler import Scheduler
from batchwright.testing.conformance.serving import ServingConformance

NUM_STEPS = 40

Step = tuple[list[RequestView], list[RequestView]]
"""Requests that need a block in a step, and those that complete one."""


class DecodesConformance(ServingConformance):
    """Checks that decodes served together leave what decodes served one by one leave."""

    def test_decodes_together_are_decodes_one_by_one(self) -> None:
        """``allocate_decodes`` takes and publishes what calls of ``allocate`` do."""
        (kv, views), (twin, others) = self._decoding(), self._decoding()
        for _ in range(NUM_STEPS):
            growing, filling = _decode(kv, views)
            new = kv.allocate_decodes(growing, filling)
            expected = KVManager.allocate_decodes(twin, *_decode(twin, others))
            assert new == expected
            assert _books(kv, views) == _books(twin, others)

    def test_decodes_of_many_steps_are_decodes_step_by_step(self) -> None:
        """``fast_forward_decodes``, if there is one, takes and publishes the same."""
        (kv, views), (twin, others) = self._decoding(), self._decoding()
        if not overrides(kv, "fast_forward_decodes"):
            return
        growing: list[RequestView] = []
        filling: list[RequestView] = []
        for _ in range(NUM_STEPS):
            step = _decode(kv, views)
            growing += step[0]
            filling += step[1]
            twin.allocate_decodes(*_decode(twin, others))
        kv.fast_forward_decodes(growing, filling)
        assert _books(kv, views) == _books(twin, others)

    def _decoding(self) -> tuple[KVManager, list[RequestView]]:
        """A manager, and requests whose prompts have been computed."""
        kv, views = self._idle(kv={"num_blocks": 1000})
        for view in views:
            assert kv.allocate(view, view.num_tokens, view.num_tokens) is not None
        return kv, views

    def _idle(self, **sections: Any) -> tuple[KVManager, list[RequestView]]:
        """A manager that is not used elsewhere, and requests that hold nothing yet."""
        scheduler: Scheduler = self.scheduler(**sections)
        scheduler.pause()
        driver = self.driver(scheduler)
        for requests in self.arrivals(8).values():
            self._arrive(driver, requests)
        return scheduler.kv_manager, [r.view for r in scheduler.requests.values()]


def _decode(kv: KVManager, views: list[RequestView]) -> Step:
    """Let each request know one token more, which the next step computes."""
    growing, filling, size = [], [], kv.ctx.sizes.block_size
    for view in views:
        request = cast("Request", view._request)
        request.num_computed_tokens = request.num_tokens
        request.token_ids.append(7)
        if request.num_computed_tokens % size == 0:
            growing.append(view)
        if request.num_tokens % size == 0:
            filling.append(view)
    return growing, filling


def _books(kv: KVManager, views: list[RequestView]) -> Any:
    """All that can be seen from outside."""
    tables = [(kv.block_ids(view), kv.lookup(view)) for view in views]
    return tables, kv.num_free_blocks, set(kv.published_blocks()), list(kv.audit({}))
