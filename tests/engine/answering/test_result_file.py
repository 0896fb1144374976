"""Results on disk: in input order at the end, and safe at any moment before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from batchwright import BatchwrightError, ConfigError
from batchwright_engine.answering.result_file import NoResults, ResultFile, ResultStream


def indices(path: Path) -> list[int]:
    return [json.loads(line)["i"] for line in path.read_text().splitlines()]


def test_result_is_in_the_part_file_as_soon_as_it_is_added(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "out.jsonl")
    results.add(2, {"i": 2})
    assert indices(tmp_path / "out.jsonl.part") == [2]
    assert not (tmp_path / "out.jsonl").exists()
    results.close()


def test_close_puts_results_in_input_order(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    results = ResultFile(path)
    for index in (2, 0, 3):
        results.add(index, {"i": index, "text": "ä\ud800\n"})
    assert results.close() == f"3 results in {path}"
    assert indices(path) == [0, 2, 3]
    assert json.loads(path.read_text().splitlines()[0])["text"] == "ä\ud800\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out.jsonl"]


def test_close_leaves_an_older_file_if_there_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"i": 9}\n')
    assert ResultFile(path).close() == ""
    assert indices(path) == [9]
    assert not (tmp_path / "out.jsonl.part").exists()


def test_part_file_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    part = tmp_path / "out.jsonl.part"
    part.write_text('{"i": 9}\n')
    with pytest.raises(ConfigError, match=r"out\.jsonl\.part: holds the results of a run"):
        ResultFile(tmp_path / "out.jsonl")
    assert indices(part) == [9]


def test_this_folder_is_no_file() -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        ResultFile(Path())


@pytest.mark.parametrize(
    ("path", "message"),
    [("no/out.jsonl", "cannot be written: No such file"), ("folder", "is a folder")],
)
def test_unwritable_file_is_refused_at_once(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=message):
        ResultFile(tmp_path / path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to be had")
def test_full_disk_costs_no_earlier_result(tmp_path: Path) -> None:
    results = ResultFile(tmp_path / "out.jsonl")
    results.add(0, {"i": 0})
    disk = results._file
    with (
        Path("/dev/full").open("wb", buffering=0) as results._file,
        pytest.raises(BatchwrightError, match=r"No space left .* finished before are kept"),
    ):
        results.add(1, {"i": 1})
    results._file = disk
    results.close()
    assert indices(tmp_path / "out.jsonl") == [0]


def test_stream_writes_a_result_when_all_before_it_are_written(capsys: Any) -> None:
    stream = ResultStream()
    stream.add(1, {"i": 1})
    assert capsys.readouterr().out == ""
    stream.add(0, {"i": 0})
    assert capsys.readouterr().out == '{"i": 0}\n{"i": 1}\n'
    stream.add(3, {"i": 3})
    assert stream.close() == ""
    assert capsys.readouterr().out == '{"i": 3}\n'


def test_no_results_keeps_nothing() -> None:
    results = NoResults()
    results.add(0, {"i": 0})
    assert results.close() == ""
