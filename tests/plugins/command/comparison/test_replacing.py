"""Two processes that write one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright_plugins.command.comparison.replacing import replace_file


def test_writers_at_once_both_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins and ends while the first one writes."""
    path, write, seen = tmp_path / "report.html", Path.write_bytes, []

    def interrupted(self: Path, content: bytes) -> int:
        written = write(self, content)
        if content == b"first":
            replace_file(path, b"second")
            seen.append(path.read_bytes())
        return written

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    assert replace_file(path, b"first") == path
    assert (seen, path.read_bytes(), [*tmp_path.iterdir()]) == ([b"second"], b"first", [path])


def test_nothing_is_left_of_what_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        replace_file(tmp_path / "taken", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
