"""Text files as users hand them in: marks, encodings, and what is no file."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from batchwright import ConfigError
from batchwright.config import load_config
from batchwright_lab.text_lines import require_file, text_lines
from batchwright_plugins.text_file import read_text

TOML = "[scheduler]\nseed = 7\n"


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(TOML, encoding="utf-8-sig")
    assert load_config(path).scheduler.seed == 7
    assert read_text(path) == "".join(text_lines(path)) == TOML


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (TOML.encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (TOML.encode("utf-32"), "is UTF-32; save it as UTF-8"),
        (gzip.compress(TOML.encode()), "is compressed (gzip); unpack it first"),
    ],
)
def test_another_encoding_is_refused_by_name(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(data)
    for read in (load_config, read_text, lambda path: list(text_lines(path))):
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: {problem}"


def test_a_byte_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"a = 1\n" * 5000 + b"b = '\xe9'\n")
    for read in (read_text, lambda path: list(text_lines(path))):
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert str(caught.value) == f"{path}:5001: expected UTF-8, got the byte 0xe9"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path, "cannot be read: Is a directory"),
        (Path("/dev/zero"), "cannot be read: it is a device"),
        (tmp_path / "none", "cannot be read: No such file or directory"),
        (tmp_path / "a\0b", "cannot be read: embedded null byte"),
    ):
        for read in (read_text, lambda path: list(text_lines(path))):
            with pytest.raises(ConfigError) as caught:
                read(path)
            assert str(caught.value) == f"{path}: {problem}"
    with pytest.raises(ConfigError, match="no regular file, and is read more than once"):
        require_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a = " + "[" * 5000, "nested too deeply"), ("a = " + "9" * 5000, "Exceeds the limit")],
)
def test_toml_that_cannot_be_parsed_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=rf"run\.toml: is not valid TOML: .*{problem}"):
        load_config(tmp_path / "run.toml")
    assert load_config(None, [f"sampling.stop=[{text[:10]!r}]"]).sampling.stop == (text[:10],)
