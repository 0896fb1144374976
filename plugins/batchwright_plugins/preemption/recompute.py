"""Give the KV up and compute it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Preemption

if TYPE_CHECKING:
    from batchwright.request_view import RequestView

__all__ = ["Recompute"]


class Recompute(Preemption):
    """Release all KV; the request computes again what is no longer cached.

    Full blocks stay in the prefix cache until another request needs them, so that a request
    that returns soon computes little. The preemption itself costs nothing.
    """

    name = "recompute"

    def keep(self, request: RequestView, block_ids: list[int]) -> int:
        return 0
