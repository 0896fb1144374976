"""Compute plans with a loaded model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import evolve

from batchwright.exceptions import ExecutorError, ModelError
from batchwright.messages import ModelOutput
from batchwright.protocols.attention import AttentionBatch
from batchwright_engine.phases import BOOKKEEPING, FORWARD, INPUT_PREPARATION, SAMPLING

from .input_batch import InputBatch
from .request_table import Grants, RequestTable
from .sampler import Sample, sample

if TYPE_CHECKING:
    from batchwright.messages import NewRequestData, SchedulerOutput
    from batchwright.protocols.attention import AttentionBackend

    from .loaded_model import LoadedModel

__all__ = ["ModelRunner"]


class ModelRunner:
    """A model, its attention backend and what is known of each request.

    Args:
        loaded: The model.
        attention: Its backend.
        seed: Seed of sampling streams of requests that bring none.
        num_blocks: Blocks of the KV cache.
        block_size: Tokens a block.
        lap: Called with the name of each phase when it ends.

    Raises:
        ModelError: The backend cannot work with this block size, or the model not at all.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        attention: AttentionBackend,
        seed: int,
        num_blocks: int,
        block_size: int,
        lap: Callable[[str], None],
    ) -> None:
        spec = evolve(loaded.spec, block_size=block_size)
        reason = attention.unsupported(spec)
        if reason is not None:
            raise ModelError(f"attention backend {attention.name!r}: {reason}")
        attention.allocate(spec, num_blocks)
        self._loaded = loaded
        self._attention = attention
        self._block_size = block_size
        self._lap = lap
        self._table = RequestTable(loaded.vocab_size, loaded.eos_token_ids, seed, block_size)
        self._warm_up()

    @torch.inference_mode()
    def _warm_up(self) -> None:
        """Compute a token in the null block: no request waits for compilers and caches.

        Raises:
            ModelError: It cannot.
        """
        nought = torch.zeros(1, dtype=torch.int64, device=self._loaded.device)
        batch = AttentionBatch(
            query_start_loc=torch.tensor([0, 1], dtype=torch.int32, device=nought.device),
            query_lens=[1],
            seq_lens=[1],
            block_tables=nought.int().view(1, 1),
            slot_mapping=nought,
        )
        self._attention.begin_step(batch)
        try:
            self._loaded.model.forward(nought, nought, nought, self._attention)
        except (RuntimeError, ValueError) as error:
            raise ModelError(
                f"the model cannot compute a single token ({error}); "
                "do its weights have the sizes that its config.json says?"
            ) from error

    def restart(self) -> None:
        """Forget every request."""
        self._table.clear()

    def add_request(self, request: NewRequestData) -> None:
        """Take up a request; see ``Executor.add_request``."""
        self._table.add(request)

    def remove_request(self, request_id: str) -> None:
        """Drop a request; see ``Executor.remove_request``."""
        self._table.remove(request_id)

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        """Compute one plan; see ``Executor.execute``."""
        if plan.swap_outs or plan.swap_ins:
            raise ExecutorError("the torch executor cannot swap blocks to the host")
        grants, errors = self._table.apply(plan)
        self._attention.copy_blocks(plan.block_copies)
        output = ModelOutput(list(errors), [[] for _ in errors], errors=errors)
        if grants.req_ids:
            self._compute(grants, plan, output)
        return output

    @torch.inference_mode()
    def _compute(self, grants: Grants, plan: SchedulerOutput, output: ModelOutput) -> None:
        batch = InputBatch.build(self._table, grants, self._block_size, self._loaded.device)
        self._attention.begin_step(batch.attention)
        self._lap(INPUT_PREPARATION)
        logits = self._loaded.model.forward(
            batch.token_ids, batch.positions, batch.logit_index, self._attention
        )
        self._lap(FORWARD)
        drawn = Sample([]) if logits is None else sample(logits, batch.sampling)
        self._lap(SAMPLING)
        self._commit(grants, batch.row_starts.tolist(), drawn, plan, output)
        self._lap(BOOKKEEPING)

    def _commit(
        self,
        grants: Grants,
        row_starts: list[int],
        drawn: Sample,
        plan: SchedulerOutput,
        output: ModelOutput,
    ) -> None:
        """Note what was drawn, here and in the answer."""
        drafts, errors = plan.scheduled_draft_token_ids, self._table.errors
        tokens = _tokens(drawn.token_ids, row_starts)
        if drafts:
            tokens = [
                _verified(some, drafts.get(req_id, ()))
                for req_id, some in zip(grants.req_ids, tokens, strict=True)
            ]
        if errors or drawn.failed:
            self._leave_out(grants.req_ids, row_starts, tokens, drawn.failed, output)
        self._append(grants, tokens)
        output.req_ids += grants.req_ids
        output.sampled_token_ids += tokens
        if drawn.logprobs:
            for req_id, start, some in zip(grants.req_ids, row_starts, tokens, strict=False):
                if some and start in drawn.logprobs:
                    rows = range(start, start + len(some))
                    output.logprobs[req_id] = [drawn.logprobs[row] for row in rows]

    def _leave_out(
        self,
        req_ids: list[str],
        row_starts: list[int],
        tokens: list[list[int]],
        failed: frozenset[int],
        output: ModelOutput,
    ) -> None:
        """Answer an error instead of tokens where a request cannot be served."""
        for i, req_id in enumerate(req_ids):
            error = self._table.errors.get(req_id)
            rows = range(row_starts[i], row_starts[i] + len(tokens[i]))
            if error is None and not failed.isdisjoint(rows):
                error = "the model computed logits that are not finite"
            if error is not None:
                output.errors[req_id] = error
                tokens[i] = []

    def _append(self, grants: Grants, tokens: list[list[int]]) -> None:
        """Add new tokens to the table: first the first of each request, then the rest."""
        counts = np.array([len(some) for some in tokens])
        for rank in range(counts.max(initial=0)):
            more = (counts > rank).nonzero()[0]
            self._table.append(grants.rows[more], [tokens[i][rank] for i in more])


def _tokens(token_ids: list[int], row_starts: list[int]) -> list[list[int]]:
    """Each request's rows of what was drawn."""
    return [token_ids[start:stop] for start, stop in pairwise(row_starts)]


def _verified(tokens: list[int], drafts: Sequence[int]) -> list[int]:
    """Tokens up to the first one that its draft did not foresee, that one included.

    Every row was drawn from the model's own distribution with its position's own
    random number: the answer is the same, token for token, as without drafts.
    """
    for place, (token, draft) in enumerate(zip(tokens, drafts, strict=False)):
        if token != draft:
            return tokens[: place + 1]
    return tokens
