"""Ended requests are gone at once, with all their tokens."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from batchwright.protocols import Arrival, Observer
from batchwright.testing import make_plugin

LIVING: list[weakref.ref[Any]] = []


class Keeper(Observer):
    """Remembers requests without keeping them."""

    name = "keeper"

    def on_add(self, request: Any) -> None:
        LIVING.append(weakref.ref(request._request))


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("caching", [True, False])
def test_ended_requests_do_not_wait_for_the_garbage_collector(
    simulate: Any, *, caching: bool, fast_forward: bool
) -> None:
    """Nothing that a simulation makes of a request holds itself."""
    LIVING.clear()
    arrivals = [
        Arrival(time=float(n), prompt_token_ids=[n + 1] * 40, num_output_tokens=20)
        for n in range(6)
    ]
    config = {"kv": {"enable_prefix_caching": caching}, "observer": [{"use": "keeper"}]}
    gc.collect()
    gc.disable()
    try:
        ran = simulate(
            arrivals, config, plugins=[make_plugin(observer=[Keeper])], fast_forward=fast_forward
        )
        living = [found.request_id for ref in LIVING if (found := ref()) is not None]
    finally:
        gc.enable()
    assert ran.simulation.reasons == {"stop": 6}
    assert (len(LIVING), living) == (6, ["5"])  # the last step's end is remembered till the next
