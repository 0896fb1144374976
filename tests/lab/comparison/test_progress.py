"""The display while cells run."""

from __future__ import annotations

import io
from typing import Any

import attrs
from rich.console import Console

from batchwright.config import Config
from batchwright_lab.comparison.cell import Cell
from batchwright_lab.comparison.progress import Progress

CELL = Cell("fcfs", "", 2.0, 0, None, False, Config())


def play(*, is_terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=100, highlight=False)
    listener: Any = Progress(console, 3, 1)
    with listener:
        listener.began(CELL)
        listener.ended(CELL, "")
        other = attrs.evolve(CELL, seed=1)
        listener.began(other)
        listener.ended(other, "raised: [red]")
    return stream.getvalue()


def test_without_a_terminal_each_cell_is_a_line() -> None:
    assert play(is_terminal=False).splitlines() == [
        "1 of 3 cells are done already",
        "[2/3] fcfs, rate 2, seed 0: done",
        "[3/3] fcfs, rate 2, seed 1: raised: [red]",
    ]


def test_on_a_terminal_there_is_a_bar_and_what_went_wrong() -> None:
    text = play(is_terminal=True)
    assert "3/3" in text
    assert "raised: [red]" in text
    assert "seed 0: done" not in text
