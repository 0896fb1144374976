"""The executor's data of each request: its tokens, blocks and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from .random_stream import stream_key
from .sampling_table import SamplingTable

if TYPE_CHECKING:
    from array import array

    from numpy.typing import NDArray

    from batchwright.messages import CachedRequestData, NewRequestData, SchedulerOutput

__all__ = ["Grants", "RequestTable"]

_FIRST_ROWS = 64
_FIRST_TOKENS = 512
_FIRST_BLOCKS = 64
_COLUMNS = ("tokens", "blocks", "num_tokens", "num_blocks", "num_computed", "num_prompt_tokens")


@frozen(eq=False)
class Grants:
    """The tokens to compute in a step, in the order of the plan.

    Args:
        req_ids: Requests.
        rows: Their rows in the table.
        lens: Scheduled tokens, drafts included.
        computed: Tokens computed before.
        num_drafts: Draft tokens, the last scheduled ones of each.
    """

    req_ids: list[str]
    rows: NDArray[np.int64]
    lens: NDArray[np.int64]
    computed: NDArray[np.int64]
    num_drafts: NDArray[np.int64]

    def without(self, bad: NDArray[np.bool_]) -> Grants:
        """These without some."""
        good = ~bad
        names = [req_id for req_id, keep in zip(self.req_ids, good, strict=True) if keep]
        columns = (self.rows, self.lens, self.computed, self.num_drafts)
        return Grants(names, *(column[good] for column in columns))


class RequestTable:
    """Rows of requests, in arrays that grow, so that a batch is built by indexing.

    Attributes:
        index: By request id, its row.
        tokens: ``[num_rows, num_columns]`` int64, known tokens, then drafts.
        blocks: ``[num_rows, num_columns]`` int32, block tables, 0 behind the last.
        num_tokens: ``[num_rows]`` int64, known tokens.
        num_blocks: ``[num_rows]`` int64.
        num_computed: ``[num_rows]`` int64, tokens computed before this step.
        num_prompt_tokens: ``[num_rows]`` int64.
        sampling: Sampling parameters, by the same rows.
        errors: By request id, why it cannot be served.

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
        self.index: dict[str, int] = {}
        self.errors: dict[str, str] = {}
        self.tokens = np.zeros((_FIRST_ROWS, _FIRST_TOKENS), np.int64)
        self.blocks = np.zeros((_FIRST_ROWS, _FIRST_BLOCKS), np.int32)
        self.num_tokens = np.zeros(_FIRST_ROWS, np.int64)
        self.num_blocks = np.zeros(_FIRST_ROWS, np.int64)
        self.num_computed = np.zeros(_FIRST_ROWS, np.int64)
        self.num_prompt_tokens = np.zeros(_FIRST_ROWS, np.int64)
        self.sampling = SamplingTable(_FIRST_ROWS)
        self._free = list(range(_FIRST_ROWS - 1, -1, -1))

    def add(self, data: NewRequestData) -> None:
        """Take up a request that is new, or was lost."""
        self.remove(data.req_id)
        params = data.sampling_params
        eos = () if params.ignore_eos else self._eos_token_ids
        key = stream_key(params.seed, self._seed, data.req_id)
        stop_ids = tuple(dict.fromkeys((*eos, *params.stop_token_ids)))
        self.index[data.req_id] = row = self._take_row()
        self.sampling.put(row, params, key, stop_ids)
        self.num_prompt_tokens[row] = len(data.prompt_token_ids)
        self.num_computed[row] = data.num_computed_tokens
        problem = self._fill(row, data.prompt_token_ids, data.output_token_ids)
        problem = _unserved(data) or problem
        if problem is not None:
            self.errors[data.req_id] = problem
        self._append_blocks(row, data.block_ids)

    def remove(self, req_id: str) -> None:
        """Forget a request; an unknown one is ignored."""
        row = self.index.pop(req_id, None)
        self.errors.pop(req_id, None)
        if row is not None:
            self._clear_blocks(row)
            self._free.append(row)

    def apply(self, plan: SchedulerOutput) -> tuple[Grants, dict[str, str]]:
        """Take over what a plan changes of the requests that are here.

        Returns:
            The work to compute, and by request id the reason why the others cannot be.
        """
        if plan.scheduled_cached_reqs.req_ids:
            self._update(plan.scheduled_cached_reqs, plan)
        grants = self._grants(plan)
        errors = self._problems(grants, plan)
        if errors:
            grants = grants.without(np.array([r in errors for r in grants.req_ids]))
        return grants, errors

    def append(self, rows: NDArray[np.int64], token_ids: Sequence[int]) -> None:
        """Add an output token to each of some rows, behind the known ones."""
        places = self.num_tokens[rows]
        self._reserve_tokens(int(places.max(initial=0)) + 1)
        self.tokens[rows, places] = token_ids
        self.num_tokens[rows] = places + 1

    def _grants(self, plan: SchedulerOutput) -> Grants:
        granted, drafts = plan.num_scheduled_tokens, plan.scheduled_draft_token_ids
        req_ids = list(granted)
        rows = self._rows(req_ids)
        lens = np.fromiter(granted.values(), np.int64, len(req_ids))
        num_drafts = np.zeros(len(req_ids), np.int64)
        if drafts:
            num_drafts[:] = [len(drafts.get(req_id, ())) for req_id in req_ids]
        return Grants(req_ids, rows, lens, self.num_computed[rows], num_drafts)

    def _rows(self, req_ids: Sequence[str]) -> NDArray[np.int64]:
        """Rows of requests; -1 for unknown ones."""
        index = self.index
        return np.array([index.get(req_id, -1) for req_id in req_ids], np.int64)

    def _problems(self, grants: Grants, plan: SchedulerOutput) -> dict[str, str]:
        """Return the problems of a plan; drafts are written behind the known tokens."""
        known = self.num_tokens[grants.rows] + grants.num_drafts
        stops = grants.computed + grants.lens
        room = self.num_blocks[grants.rows] * self._block_size
        bad = (grants.rows < 0) | (stops > known) | (stops > room)
        bad |= (grants.num_drafts > 0) & (stops != known)
        errors = {grants.req_ids[i]: self._problem(grants, int(i)) for i in bad.nonzero()[0]}
        for req_id, drafts in plan.scheduled_draft_token_ids.items():
            if req_id in errors or not drafts:
                continue
            if any(not 0 <= token < self._vocab_size for token in drafts):
                errors[req_id] = (
                    f"a draft token is not below the vocabulary's size, {self._vocab_size}"
                )
            else:
                row = self.index[req_id]
                self._write(row, int(self.num_tokens[row]), drafts)
        return errors

    def _problem(self, grants: Grants, place: int) -> str:
        row, num_drafts = int(grants.rows[place]), int(grants.num_drafts[place])
        if row < 0:
            return "the executor does not know this request"
        known = int(self.num_tokens[row])
        stop = int(grants.computed[place] + grants.lens[place])
        if stop > known + num_drafts:
            return f"the plan schedules {stop} tokens, of which the executor knows {known}"
        if stop > self.num_blocks[row] * self._block_size:
            return f"its {self.num_blocks[row]} blocks do not hold {stop} tokens"
        return "the plan verifies drafts before the last known token is reached"

    def _fill(self, row: int, prompt: array[int], outputs: array[int]) -> str | None:
        """Write a request's tokens; say what is wrong with them."""
        tokens = np.concatenate([np.asarray(prompt, np.int64), np.asarray(outputs, np.int64)])
        foreign = tokens[tokens >= self._vocab_size]
        # Computed all the same, with a harmless token: others may share its blocks.
        tokens[tokens >= self._vocab_size] = 0
        self._write(row, 0, tokens)
        self.num_tokens[row] = len(tokens)
        if not len(foreign):
            return None
        return f"token id {foreign[0]} is not below the vocabulary's size, {self._vocab_size}"

    def _update(self, cached: CachedRequestData, plan: SchedulerOutput) -> None:
        """Apply the changes of known requests; unknown ones are reported later."""
        rows = self._rows(cached.req_ids)
        for req_id in cached.resumed_req_ids:
            if req_id in self.index:
                self._clear_blocks(self.index[req_id])
        for row, blocks in zip(rows.tolist(), cached.new_block_ids, strict=True):
            if blocks and row >= 0:
                self._append_blocks(row, blocks)
        drafts, granted = plan.scheduled_draft_token_ids, plan.num_scheduled_tokens
        grants = [granted.get(req_id, 0) for req_id in cached.req_ids]
        if drafts:
            columns = zip(cached.req_ids, grants, strict=True)
            grants = [count - len(drafts.get(req_id, ())) for req_id, count in columns]
        computed = np.array(cached.num_computed_tokens, np.int64)
        outputs = np.array(cached.num_output_tokens, np.int64)
        # In a pipeline the scheduled tokens include some that the scheduler has yet to see.
        known = np.maximum(self.num_prompt_tokens[rows] + outputs, computed + grants)
        is_known = rows >= 0
        rows, computed, known = rows[is_known], computed[is_known], known[is_known]
        self.num_computed[rows] = computed
        self.num_tokens[rows] = np.minimum(self.num_tokens[rows], known)

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

    def _write(self, row: int, start: int, token_ids: Sequence[int] | NDArray[np.int64]) -> None:
        stop = start + len(token_ids)
        self._reserve_tokens(stop)
        self.tokens[row, start:stop] = token_ids

    def _reserve_tokens(self, count: int) -> None:
        if count > self.tokens.shape[1]:
            self.tokens = _widened(self.tokens, count)

    def _take_row(self) -> int:
        if not self._free:
            count = len(self.tokens)
            for name in _COLUMNS:
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
            self.sampling.grow()
            self._free = list(range(2 * count - 1, count - 1, -1))
        return self._free.pop()


def _widened(old: NDArray[Any], least: int) -> NDArray[Any]:
    new = np.zeros((len(old), max(2 * old.shape[1], least)), old.dtype)
    new[:, : old.shape[1]] = old
    return new


def _unserved(data: NewRequestData) -> str | None:
    if data.adapter is not None:
        return f"the executor serves no adapters, and the request asks for {data.adapter!r}"
    if len(data.block_ids_by_group) > 1:
        return "the executor keeps one KV group, and the request has several block tables"
    return None
