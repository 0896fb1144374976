"""What an executor knows of each request: its tokens, blocks and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import define

from batchwright.sampling_params import SamplingParams

from .random_stream import stream_key

if TYPE_CHECKING:
    from array import array

    from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput

__all__ = ["RequestRow", "RequestTable"]

_FIRST_ROWS = 64
_FIRST_TOKENS = 512
_FIRST_BLOCKS = 64


@define
class RequestRow:
    """One request's row in the table, and what does not fit into columns.

    Args:
        row: Its row.
        params: How to sample it.
        key: Key of its random stream.
        num_prompt_tokens: Length of its prompt.
        stop_ids: Tokens that end it.
        error: Why it cannot be served, if so.
    """

    row: int
    params: SamplingParams
    key: int
    num_prompt_tokens: int
    stop_ids: tuple[int, ...]
    error: str | None = None


class RequestTable:
    """Rows of requests, in arrays that grow, so that a batch is built by indexing.

    Attributes:
        tokens: ``[num_rows, num_columns]`` int64, known tokens, then drafts.
        blocks: ``[num_rows, num_columns]`` int32, block tables, 0 behind the last.
        num_tokens: ``[num_rows]`` int64, known tokens.
        num_blocks: ``[num_rows]`` int64.
        num_computed: ``[num_rows]`` int64, tokens computed before this step.

    Args:
        vocab_size: Token ids are below this.
        eos_token_ids: End-of-sequence tokens of the model.
        seed: Seed of streams of requests that bring none.
        block_size: Tokens a block.
    """

    def __init__(
        self, vocab_size: int, eos_token_ids: tuple[int, ...], seed: int, block_size: int
    ) -> None:
        self._vocab_size = vocab_size
        self._block_size = block_size
        self._eos_token_ids = eos_token_ids
        self._seed = seed
        self.clear()

    def clear(self) -> None:
        """Forget every request."""
        self.rows: dict[str, RequestRow] = {}
        self.tokens = np.zeros((_FIRST_ROWS, _FIRST_TOKENS), np.int64)
        self.blocks = np.zeros((_FIRST_ROWS, _FIRST_BLOCKS), np.int32)
        self.num_tokens = np.zeros(_FIRST_ROWS, np.int64)
        self.num_blocks = np.zeros(_FIRST_ROWS, np.int64)
        self.num_computed = np.zeros(_FIRST_ROWS, np.int64)
        self._free = list(range(_FIRST_ROWS - 1, -1, -1))

    def apply(self, plan: SchedulerOutput) -> dict[str, str]:
        """Take over what a plan changes.

        Returns:
            By request id, why a request of this plan cannot be computed.
        """
        for req_id in plan.finished_req_ids:
            self._drop(req_id)
        for data in plan.scheduled_new_reqs:
            self._add(data)
        errors = self._update(plan.scheduled_cached_reqs, plan)
        for req_id, granted in plan.num_scheduled_tokens.items():
            if req_id not in errors:
                drafts = plan.scheduled_draft_token_ids.get(req_id, ())
                problem = self._problem(req_id, granted, drafts)
                if problem is not None:
                    errors[req_id] = problem
        return errors

    def append(self, req_id: str, token_ids: Sequence[int]) -> None:
        """Add output tokens behind the known ones."""
        row = self.rows[req_id].row
        start = int(self.num_tokens[row])
        self._write(row, start, token_ids)
        self.num_tokens[row] = start + len(token_ids)

    def _add(self, data: NewRequestData) -> None:
        self._drop(data.req_id)
        params = data.sampling_params
        eos = () if params.ignore_eos else self._eos_token_ids
        state = RequestRow(
            row=self._take_row(),
            params=params,
            key=stream_key(params.seed, self._seed, data.req_id),
            num_prompt_tokens=len(data.prompt_token_ids),
            stop_ids=tuple(dict.fromkeys((*eos, *params.stop_token_ids))),
            error=_unserved(data),
        )
        self.rows[data.req_id] = state
        self._fill(state, data.prompt_token_ids, data.output_token_ids)
        self.num_computed[state.row] = data.num_computed_tokens
        self._append_blocks(state.row, data.block_ids)

    def _fill(self, state: RequestRow, prompt: array[int], outputs: array[int]) -> None:
        tokens = np.concatenate([np.asarray(prompt, np.int64), np.asarray(outputs, np.int64)])
        foreign = tokens >= self._vocab_size
        if foreign.any():
            # Computed all the same, with a harmless token: others may share its blocks.
            state.error = state.error or (
                f"token id {tokens[foreign][0]} is not below the vocabulary's size, "
                f"{self._vocab_size}"
            )
            tokens[foreign] = 0
        self._write(state.row, 0, tokens)
        self.num_tokens[state.row] = len(tokens)

    def _update(self, cached: CachedRequestData, plan: SchedulerOutput) -> dict[str, str]:
        errors = {}
        resumed = frozenset(cached.resumed_req_ids)
        for req_id, blocks, computed, outputs in zip(
            cached.req_ids,
            cached.new_block_ids,
            cached.num_computed_tokens,
            cached.num_output_tokens,
            strict=True,
        ):
            state = self.rows.get(req_id)
            if state is None:
                errors[req_id] = "the executor does not know this request"
                continue
            row = state.row
            self.num_computed[row] = computed
            if req_id in resumed:
                self._clear_blocks(row)
            if blocks:
                self._append_blocks(row, blocks)
            drafts = len(plan.scheduled_draft_token_ids.get(req_id, ()))
            reached = computed + plan.num_scheduled_tokens.get(req_id, 0) - drafts
            # In a pipeline the grant covers tokens that the scheduler has yet to see.
            known = max(state.num_prompt_tokens + outputs, reached)
            if known < self.num_tokens[row]:
                self.num_tokens[row] = known
        return errors

    def _problem(self, req_id: str, granted: int, drafts: Sequence[int]) -> str | None:
        """Why a grant cannot be computed; its drafts are written behind its tokens."""
        state = self.rows.get(req_id)
        if state is None:
            return "the executor does not know this request"
        row = state.row
        known = int(self.num_tokens[row])
        stop = int(self.num_computed[row]) + granted
        if stop > known + len(drafts):
            return f"the plan grants {stop} tokens, of which the executor knows {known}"
        if stop > self.num_blocks[row] * self._block_size:
            return f"its {self.num_blocks[row]} blocks do not hold {stop} tokens"
        if drafts and stop != known + len(drafts):
            return "the plan verifies drafts before the last known token is reached"
        if any(not 0 <= token < self._vocab_size for token in drafts):
            return f"a draft token is not below the vocabulary's size, {self._vocab_size}"
        if drafts:
            self._write(row, stop - len(drafts), drafts)
        return None

    def _drop(self, req_id: str) -> None:
        state = self.rows.pop(req_id, None)
        if state is not None:
            self._clear_blocks(state.row)
            self._free.append(state.row)

    def _clear_blocks(self, row: int) -> None:
        self.blocks[row, : self.num_blocks[row]] = 0
        self.num_blocks[row] = 0

    def _append_blocks(self, row: int, block_ids: Sequence[int]) -> None:
        start = int(self.num_blocks[row])
        stop = start + len(block_ids)
        if stop > self.blocks.shape[1]:
            self.blocks = _widened(self.blocks, stop)
        self.blocks[row, start:stop] = block_ids
        self.num_blocks[row] = stop

    def _write(self, row: int, start: int, token_ids: Sequence[int] | np.ndarray) -> None:
        stop = start + len(token_ids)
        if stop > self.tokens.shape[1]:
            self.tokens = _widened(self.tokens, stop)
        self.tokens[row, start:stop] = token_ids

    def _take_row(self) -> int:
        if not self._free:
            count = len(self.tokens)
            for name in ("tokens", "blocks", "num_tokens", "num_blocks", "num_computed"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            self._free = list(range(2 * count - 1, count - 1, -1))
        return self._free.pop()


def _widened(old: np.ndarray, least: int) -> np.ndarray:
    new = np.zeros((len(old), max(2 * old.shape[1], least)), old.dtype)
    new[:, : old.shape[1]] = old
    return new


def _unserved(data: NewRequestData) -> str | None:
    if data.adapter is not None:
        return f"the executor serves no adapters, and the request asks for {data.adapter!r}"
    if len(data.block_ids_by_group) > 1:
        return "the executor keeps one KV group, and the request has several block tables"
    return None
