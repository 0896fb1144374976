"""Sampling parameters of each request, in rows that last as long as it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from attrs import frozen

from .random_stream import uniforms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchwright.sampling_params import SamplingParams

__all__ = ["SamplingRows", "SamplingTable"]

_COLUMNS = {
    "temperature": np.float64,
    "top_p": np.float64,
    "top_k": np.int64,
    "min_p": np.float64,
    "presence_penalty": np.float64,
    "frequency_penalty": np.float64,
    "repetition_penalty": np.float64,
    "min_tokens": np.int64,
}
_NO_LOGPROBS = -1


class SamplingTable:
    """Columns of sampling parameters, one row a request; grows with its highest row.

    Args:
        num_rows: Rows at first.
    """

    def __init__(self, num_rows: int) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(num_rows, dtype) for name, dtype in _COLUMNS.items()
        }
        self._columns["logprobs"] = np.zeros(num_rows, np.int64)
        self._columns["key"] = np.zeros(num_rows, np.uint64)
        self._columns["is_greedy"] = np.zeros(num_rows, np.bool_)
        self._columns["is_penalised"] = np.zeros(num_rows, np.bool_)
        self._stop_ids: list[tuple[int, ...]] = [()] * num_rows

    def grow(self) -> None:
        """Double the rows."""
        for name, old in self._columns.items():
            self._columns[name] = np.concatenate([old, np.zeros_like(old)])
        self._stop_ids *= 2

    def put(self, row: int, params: SamplingParams, key: int, stop_ids: tuple[int, ...]) -> None:
        """Fill a row.

        Args:
            row: Its number.
            params: The request's parameters.
            key: Key of its random stream.
            stop_ids: Tokens that end it.
        """
        is_penalised = bool(
            params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1.0
        )
        is_plain = params.temperature == 0 and params.logprobs is None and not is_penalised
        values = attrs.asdict(params, filter=lambda field, _: field.name in _COLUMNS)
        values["logprobs"] = _NO_LOGPROBS if params.logprobs is None else params.logprobs
        values |= {"key": key, "is_greedy": is_plain, "is_penalised": is_penalised}
        for name, value in values.items():
            self._columns[name][row] = value
        self._stop_ids[row] = stop_ids

    def stop_ids(self, row: int) -> tuple[int, ...]:
        """Tokens that end a row's request."""
        return self._stop_ids[row]

    def take(self, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> SamplingRows:
        """Return the rows that are to be sampled.

        Args:
            rows: ``[num_rows]``, a row of the table for each row of logits.
            positions: ``[num_rows]``, which of its output tokens that is, from 0.
        """
        return SamplingRows(self, rows, positions)

    def column(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows of a column."""
        return self._columns[name][rows]


@frozen(eq=False)
class SamplingRows:
    """Rows of logits and how each is to be sampled.

    Args:
        table: Parameters by request.
        rows: ``[num_rows]``, each one's row of the table.
        positions: ``[num_rows]``, which output token each is, from 0.
        tokens: ``[num_table_rows, num_columns]``, what is known of each request.
        num_prompt_tokens: ``[num_rows]``, how many of these are its prompt.
    """

    table: SamplingTable
    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64] | None = None
    num_prompt_tokens: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def are_greedy(self) -> bool:
        """True if every row is the likeliest token of its logits, and nothing else."""
        return bool(self.column("is_greedy").all()) and not self._early().any()

    def column(self, name: str) -> NDArray[Any]:
        """One parameter of every row."""
        return self.table.column(name, self.rows)

    def some(self, index: NDArray[np.int64]) -> SamplingRows:
        """These rows alone."""
        prompts = self.num_prompt_tokens
        return attrs.evolve(
            self,
            rows=self.rows[index],
            positions=self.positions[index],
            num_prompt_tokens=None if prompts is None else prompts[index],
        )

    def banned(self) -> Sequence[tuple[int, int]]:
        """(row, token) pairs: ends that may not be chosen before ``min_tokens``."""
        return [
            (int(row), token)
            for row in self._early().nonzero()[0]
            for token in self.table.stop_ids(int(self.rows[row]))
        ]

    def chances(self) -> NDArray[np.float64]:
        """The random number of each row, in [0, 1)."""
        return uniforms(self.column("key"), self.positions)

    def logprobs_wanted(self) -> dict[int, int]:
        """Number of the likeliest tokens to return, by row."""
        counts = self.column("logprobs")
        return {int(row): int(counts[row]) for row in (counts != _NO_LOGPROBS).nonzero()[0]}

    def _early(self) -> NDArray[np.bool_]:
        return self.positions < self.column("min_tokens")
