"""Files that commands write: all or nothing."""

from __future__ import annotations

from pathlib import Path

from batchwright_engine.output_file import write_text, writing


def test_writers_of_one_file_at_once_both_finish(tmp_path: Path) -> None:
    """The second one begins and ends while the first one writes."""
    path = tmp_path / "report.html"
    with writing(path) as file:
        file.write(b"first")
        write_text(path, "second")
        seen = path.read_bytes()
    assert (seen, path.read_bytes(), [*tmp_path.iterdir()]) == (b"second", b"first", [path])
