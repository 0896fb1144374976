"""Let chunks end where blocks end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Limit

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["BlockAlign"]


class BlockAlign(Limit):
    """Cut a chunk of a prompt back to the last block that it fills.

    Tokens of a block that a chunk does not fill cannot be shared yet, and kernels, drafters and
    models with state per block want whole chunks. A chunk that completes the known tokens of a
    request stays as it is. So does a chunk that fills no block, since it would otherwise be
    empty. vLLM aligns chunks so for models with state (``mamba_cache_mode = "align"``). Put it
    last: limits behind it may cut again.

    Decodes are not asked about. O(1) a request.
    """

    name = "block-align"

    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        start = request.num_computed_tokens or self.ctx.prefix_hit(request)
        end = start + min(num_tokens, view.num_tokens_left)
        if end >= request.num_tokens:
            return num_tokens
        aligned = end - end % self.ctx.sizes.block_size - start
        return aligned if aligned > 0 else num_tokens
