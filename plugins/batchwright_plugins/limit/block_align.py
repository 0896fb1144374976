"""Let chunks end where blocks end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.protocols import Limit

if TYPE_CHECKING:
    from batchwright.request_view import RequestView
    from batchwright.step_view import StepView

__all__ = ["BlockAlign"]


class BlockAlign(Limit):
    """Cuts a chunk of a prompt back to the last block that it fills.

    What a chunk computes of a block that it does not fill cannot be shared yet, and
    kernels, drafters and models with state per block want their chunks whole. A grant that
    completes what is known of a request stays as it is, and so does one that fills no
    block, since it would else be nothing. vLLM aligns chunks so for models with state
    (``mamba_cache_mode = "align"``). Put it last: limits behind it may cut again.

    Decodes are not asked about. O(1) a grant.
    """

    name = "block-align"

    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        start = request.num_computed_tokens or self.ctx.prefix_hit(request)
        end = start + min(num_tokens, view.num_tokens_left)
        if end >= request.num_tokens:
            return num_tokens
        aligned = end - end % self.ctx.sizes.block_size - start
        return aligned if aligned > 0 else num_tokens
