"""The tables of docs/reference/decisions.md name all that components see, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from batchwright import VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.plugin import RequestView
from batchwright.protocols import Observer
from batchwright.step_record import StepRecord
from batchwright.step_view import StepView
from batchwright.testing import make_plugin
from batchwright.usage import Usage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "decisions.md"
FOR_THE_CORE = {
    "add_decode_tokens",
    "bind",
    "change_num_batched",
    "change_num_blocks",
    "of",
    "services",
}
"""Names that schedulers use, and components do not."""


class Onlooker(Observer):
    """Gets a context."""

    name = "onlooker"


def names_of_context() -> set[str]:
    scheduler = scheduler_from_config(
        {"observer": [{"use": "onlooker"}]},
        clock=VirtualClock(),
        plugins=[make_plugin(observer=[Onlooker])],
    )
    (observer,) = scheduler.components.observers
    return public({*vars(observer.ctx), *dir(type(observer.ctx))})


def public(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")} - FOR_THE_CORE


def names_in_table(heading: str) -> set[str]:
    """Names in the first column, without arguments and keys."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    cells = re.findall(r"^\| (`.*?) \|", section.partition("\n## ")[0], re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("What a request shows", public(set(dir(RequestView)))),
        ("What `ctx` offers", names_of_context()),
        ("What a view shows", public(set(dir(StepView)))),
        ("What an account was served", public(set(dir(Usage)))),
        ("What a record has", public(set(dir(StepRecord)))),
    ],
)
def test_table_names_what_there_is(heading: str, names: set[str]) -> None:
    """Each public name of the class stands in its table, and no other."""
    assert names_in_table(heading) == names
