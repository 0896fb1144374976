"""Columns of text are as wide as they must be, and nothing is wrapped or marked up."""

from __future__ import annotations

from batchwright_engine.text_table import aligned


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [["", "policy", "E2E"], ["1.", "fcfs", "2 s"], ["10.", "a", ""]]
    assert list(aligned(rows)) == ["     policy  E2E", "1.   fcfs    2 s", "10.  a"]


def test_letters_that_take_two_places_count_twice() -> None:
    assert list(aligned([["\u7b56", "x"], ["ab", "y"], ["c", "z"]])) == [
        "\u7b56  x",
        "ab  y",
        "c   z",
    ]


def test_the_first_column_may_be_wider() -> None:
    assert list(aligned([["a", "b"]], gap=0, least=4, indent="  ")) == ["  a   b"]


def test_long_cells_stay_on_their_line_as_they_are() -> None:
    text = "[bold]word[/bold] " * 500
    assert list(aligned([["a", text]])) == [f"a  {text.rstrip()}"]


def test_no_rows_are_no_lines() -> None:
    assert list(aligned([])) == []
