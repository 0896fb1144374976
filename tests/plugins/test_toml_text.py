"""Messages about a TOML file name the line."""

from __future__ import annotations

import pytest

from batchwright.config import load_config
from batchwright.exceptions import ConfigError
from batchwright_plugins.toml_text import line_of

TEXT = '''# a comment = 1
[scheduler]
policy = "fair"  # max_num_seqs = 1
note = """
max_num_seqs = 2
[gate]
"""
max_num_seqs = 3

[[gate]]
use = "full-need"
[[gate]]
use = "watermark"
"fraction" = 0.1
[policy.fair]
weights = {ada = 1,
  bob = 2}
"a=b" = 3
[kv]
eviction.size = 4
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("scheduler.max_num_seqs", 8),
        ("scheduler.policy", 3),
        ("gate[0].use", 11),
        ("gate[1].fraction", 14),
        ("gate[1].fractoin", 12),
        ("policy.fair.weights.ada", 16),
        ("policy.fair.a=b", 18),
        ("kv.eviction.size", 20),
        ("kv.nothing", 19),
        ("model.path", None),
    ],
)
def test_line_of_an_option_or_of_what_lacks_it(path: str, line: int | None) -> None:
    assert line_of(TEXT, path) == line


def test_one_problem_is_told_with_file_and_line(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[kv]\n\nblock_size = 0\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}:3: kv.block_size: expected a number >= 1")


def test_several_problems_are_told_with_their_lines_but_not_those_of_overrides(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("[kv]\nblock_size = 0\n[scheduler]\nmax_num_seqs = 4\nseeed = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, ["scheduler.max_num_seqs=0"])
    text = str(caught.value)
    assert "\n  kv.block_size (line 2): " in text
    assert "\n  scheduler.seeed (line 5): unknown option." in text
    assert "\n  scheduler.max_num_seqs: expected" in text
