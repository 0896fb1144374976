"""Computes plans with a loaded model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from attrs import evolve

from batchwright.exceptions import ExecutorError, ModelError
from batchwright.messages import ModelOutput

from .input_batch import InputBatch, RequestPart
from .request_table import RequestTable
from .sampler import Sample, sample

if TYPE_CHECKING:
    from batchwright.messages import SchedulerOutput
    from batchwright.protocols.attention import AttentionBackend

    from .model_loader import LoadedModel

__all__ = ["ModelRunner"]


class ModelRunner:
    """A model, its attention backend and what is known of each request.

    Args:
        loaded: The model.
        attention: Its backend.
        seed: Seed of sampling streams of requests that bring none.
        num_blocks: Blocks of the KV cache.
        block_size: Tokens a block.

    Raises:
        ModelError: The backend cannot work with this block size.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        attention: AttentionBackend,
        seed: int,
        num_blocks: int,
        block_size: int,
    ) -> None:
        spec = evolve(loaded.spec, block_size=block_size)
        reason = attention.unsupported(spec)
        if reason is not None:
            raise ModelError(f"attention backend {attention.name!r}: {reason}")
        attention.allocate(spec, num_blocks)
        self._loaded = loaded
        self._attention = attention
        self._block_size = block_size
        self._table = RequestTable(loaded.vocab_size, loaded.eos_token_ids, seed, block_size)

    def restart(self) -> None:
        """Forget every request."""
        self._table.clear()

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        """Compute one plan; see ``Executor.execute``."""
        if plan.swap_outs or plan.swap_ins:
            raise ExecutorError("the torch executor cannot swap blocks to the host")
        errors = self._table.apply(plan)
        self._attention.copy_blocks(plan.block_copies)
        granted = {r: n for r, n in plan.num_scheduled_tokens.items() if r not in errors}
        output = ModelOutput(list(errors), [[] for _ in errors], errors=errors)
        if granted:
            batch = InputBatch.build(
                self._table,
                granted,
                plan.scheduled_draft_token_ids,
                self._block_size,
                self._loaded.device,
            )
            self._commit(batch, self._compute(batch), output)
        return output

    @torch.inference_mode()
    def _compute(self, batch: InputBatch) -> Sample:
        self._attention.begin_step(batch.attention)
        logits = self._loaded.model.forward(
            batch.token_ids, batch.positions, batch.logit_index, self._attention
        )
        return Sample([]) if logits is None else sample(logits, batch.rows)

    def _commit(self, batch: InputBatch, drawn: Sample, output: ModelOutput) -> None:
        for part in batch.parts:
            error = self._table.rows[part.req_id].error
            tokens: list[int] = []
            if error is None:
                tokens, error = _verify(part, drawn)
            if error is not None:
                output.errors[part.req_id] = error
                tokens = []
            output.req_ids.append(part.req_id)
            output.sampled_token_ids.append(tokens)
            self._table.append(part.req_id, tokens)
            if part.start in drawn.logprobs and tokens:
                rows = range(part.start, part.start + len(tokens))
                output.logprobs[part.req_id] = [drawn.logprobs[row] for row in rows]


def _verify(part: RequestPart, drawn: Sample) -> tuple[list[int], str | None]:
    """Tokens up to the first one that its draft did not foresee, that one included.

    Every row was drawn from the model's own distribution with its position's own
    random number: the answer is the same, token for token, as without drafts.
    """
    tokens: list[int] = []
    for row in range(part.start, part.stop):
        token = drawn.token_ids[row]
        if token is None:
            return [], "the model computed logits that are not finite"
        tokens.append(token)
        place = row - part.start
        if place < len(part.drafts) and part.drafts[place] != token:
            break
    return tokens, None
