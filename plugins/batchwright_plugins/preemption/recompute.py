"""Give the KV up and compute it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Preemption

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["Recompute"]


class Recompute(Preemption):
    """Gives all KV up; on its return the request computes what is not cached any more.

    Full blocks stay in the prefix cache until another request needs them, so that a request
    that returns soon computes little. Costs nothing when it happens.
    """

    name = "recompute"

    def keep(self, request: RequestView, block_ids: list[int]) -> int:
        return 0
