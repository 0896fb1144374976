"""Conformance of attention backends. torch is imported by the tests that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from batchwright.testing.conformance.base import Conformance

if TYPE_CHECKING:
    from batchwright.protocols import AttentionBackend
    from batchwright.testing.attention import Case

CASES: dict[str, dict[str, Any]] = {
    "decodes": {"requests": [(33, 1), (31, 1), (3, 1), (0, 1), (8, 1)]},
    "prefills": {"requests": [(0, 9), (0, 2), (0, 17)]},
    "chunks": {"requests": [(6, 5), (16, 8), (1, 30)]},
    "mixed": {"requests": [(33, 1), (0, 9), (31, 1), (6, 5), (0, 1)]},
    "grouped heads": {"requests": [(33, 1), (0, 9), (6, 5)], "group_size": 3},
    "one block a token": {"requests": [(5, 1), (2, 3)], "block_size": 1},
    "large blocks": {"requests": [(33, 1), (0, 20)], "block_size": 16, "head_size": 16},
    "windows": {"requests": [(33, 1), (0, 19), (6, 5)], "windows": (7, None, 16)},
    "softcap": {"requests": [(33, 1), (6, 5)], "softcap": 5.0},
    "sinks": {"requests": [(33, 1), (6, 5)], "sinks": True, "group_size": 2},
    "bfloat16": {"requests": [(33, 1), (0, 9), (6, 5)], "dtype": "bfloat16"},
    "float16": {"requests": [(33, 1), (0, 9), (6, 5)], "dtype": "float16"},
}


class AttentionConformance(Conformance):
    """Check an attention backend against dense attention in float64.

    A case that the backend says it cannot serve is skipped; a decode must be served.

    Attributes:
        device: Device: ``cpu`` or ``cuda``.
        head_size: Elements a head, where a case says nothing else.
        block_size: Tokens a block, where a case says nothing else.
        dtype: Type of the computation, unless a case has another one.
    """

    kind: ClassVar[str] = "attention"
    device: ClassVar[str] = "cpu"
    head_size: ClassVar[int] = 8
    block_size: ClassVar[int] = 4
    dtype: ClassVar[str] = "float32"

    @pytest.mark.parametrize("name", CASES)
    def test_outputs_equal_dense_attention(self, name: str) -> None:
        """Whatever lay in the blocks before: they are full of NaN."""
        from batchwright.testing.attention import check_attention

        case = self._case(**CASES[name])
        check_attention(case, lambda num_blocks: self._allocated(case, num_blocks))

    def test_some_model_is_served(self) -> None:
        """Float32 or one of the half types, without anything special."""
        cases = [self._case(requests=[], dtype=d) for d in ("float32", "bfloat16", "float16")]
        reasons = [self.build().unsupported(case.spec) for case in cases]
        assert None in reasons, reasons

    def test_copied_blocks_hold_the_same(self) -> None:
        """In every layer, keys and values."""
        from batchwright.testing.attention import check_copies

        decode = (self.block_size, 1)
        case = self._case(requests=[decode, decode], windows=(None, None))
        check_copies(case, self._allocated(case, 6))

    def _case(self, **fields: Any) -> Case:
        from batchwright.testing.attention import Case, Shape

        requests = [Shape(*shape) for shape in fields.pop("requests")]
        usual = {
            "head_size": self.head_size,
            "block_size": self.block_size,
            "dtype": self.dtype,
            "device": self.device,
        }
        return Case(requests=requests, **{**usual, **fields})

    def _allocated(self, case: Case, num_blocks: int) -> AttentionBackend:
        """A backend whose cache holds NaN in every block that requests may hold."""
        from batchwright.testing.attention import fill_with_nan

        backend: AttentionBackend = self.build()
        reason = backend.unsupported(case.spec)
        if reason is not None:
            pytest.skip(reason)
        backend.allocate(case.spec, num_blocks)
        fill_with_nan(backend, case, num_blocks)
        return backend
