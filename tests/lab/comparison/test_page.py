"""The page: small however much is compared, safe whatever names say."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

import attrs
import pytest

from batchwright_lab.comparison.grid import Grid
from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.outcome import Outcome
from batchwright_lab.comparison.report.page import render_page
from batchwright_lab.comparison.report.setup import Setup
from batchwright_lab.comparison.summary import Summary, summarize
from batchwright_lab.comparison.targets import read_targets

from .making import outcome

SETUP = Setup("batchwright compare", (0,), read_targets([]), 60.0)


def full(policy: str, variation: str = "") -> Outcome:
    """A cell with every figure, and as many samples as any has."""
    times = [0.1 * i for i in range(256)]
    latencies = array("d", (0.1 + 0.001 * i for i in range(2000)))
    return attrs.evolve(
        outcome(policy, 1.0, **dict.fromkeys(MEASURES, 1.2345678)),
        variation=variation,
        latencies={"ttft": latencies, "tpot": latencies, "e2e": latencies},
        series={"time": times, "waiting": times, "running": times, "kv": times},
        record={"toml": "x = 1\n" * 500},
    )


def page_of(cells: list[Outcome], values: dict[str, dict[str, str]]) -> str:
    policies = tuple(dict.fromkeys(cell.policy for cell in cells))
    pairs = tuple((cell.policy, cell.variation) for cell in cells)
    grid = Grid(policies, tuple(values), (1.0,), (0,), (), pairs, values)
    summary: Summary = summarize(grid, cells, "e2e_mean")
    return render_page(cells, summary, SETUP)


def data_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(text)


def test_a_page_of_eighty_contenders_is_below_three_megabytes() -> None:
    values = {f"x={n}": {"kv.x": str(n)} for n in range(1, 9)}
    cells = [full(f"policy-{p}", label) for p in range(10) for label in values]
    page = page_of(cells, values)
    assert 1_000_000 < len(page.encode()) < 3_000_000
    points = [len(line["x"]) for chart in data_of(page)["charts"] for line in chart["lines"]]
    assert max(points) == 83


def test_names_are_text_wherever_they_stand() -> None:
    name = "</script><b>&'\"\u2028"
    page = page_of([full(name), full("other")], {"": {}})
    assert "<b>&" not in page
    assert "&lt;/script&gt;&lt;b&gt;&amp;&#39;&#34;" in page
    assert data_of(page)["charts"][0]["lines"][0]["s"] == name


def test_a_page_of_nothing_has_no_scripts() -> None:
    page = page_of([outcome("a", 1.0, fault="died")], {"": {}})
    assert "<script" not in page
    assert "No policy has run without a fault." in page


@pytest.mark.parametrize(
    "words", ["@media print", "table-header-group", "prefers-color-scheme:dark"]
)
def test_page_follows_paper_and_the_dark(words: str) -> None:
    assert words in page_of([full("a"), full("b")], {"": {}})
