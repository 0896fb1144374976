"""Points at which decisions follow another engine though they could be better."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class Compat:
    """Habits of another engine that are taken over; by default none.

    The list is closed: docs/explanation/differences-from-vllm.md has a workload and a
    reason for each. An engine's endless loops are no habit and never taken over.

    Args:
        keeps_victims_hashes: A request that is preempted after it was planned in the same step
            leaves blocks published that will not be computed.
        stops_early: A stop token ends a request before ``min_tokens`` too; the sampler has to
            prevent it.
        orders_equals_by_id: Requests of equal priority and arrival time are served in
            the order of their ids, not of their insertion.
        forgets_half_prompts: An admission is compared with the blocks that are free now,
            without those that half-computed prompts still need.
        num_futile_preemptions: Preemptions without an output that a request goes through
            at least before it must fit as a whole: so many that they would never end.
    """

    keeps_victims_hashes: bool = False
    stops_early: bool = False
    orders_equals_by_id: bool = False
    forgets_half_prompts: bool = False
    num_futile_preemptions: int = 0


COMPAT: Final = {
    "none": Compat(),
    "vllm-0.32": Compat(
        keeps_victims_hashes=True,
        stops_early=True,
        orders_equals_by_id=True,
        forgets_half_prompts=True,
        num_futile_preemptions=100,
    ),
}
