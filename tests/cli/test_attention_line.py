"""Which attention computes, and why no other one, in one line."""

import pytest

from batchwright.protocols import ModelInfo
from batchwright_engine.answering.report import attention_line


@pytest.mark.parametrize(
    ("chosen", "others", "expected"),
    [
        ("", (), "attention none"),
        ("torch", (), "attention torch"),
        (
            "torch",
            (("a", "it is slow"), ("b", "it is missing"), ("c", "it is slow")),
            "attention torch (not a, c: it is slow; not b: it is missing)",
        ),
    ],
)
def test_attention_line_groups_equal_reasons(chosen, others, expected):
    model = ModelInfo(
        name="m", max_model_len=9, vocab_size=9, attention=chosen, attention_others=others
    )
    assert attention_line(model) == expected
