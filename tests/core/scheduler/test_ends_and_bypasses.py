"""ctx.end from every callback of a step, what backfill lets pass, what half prompts need."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.protocols import Caps, Control, Gate, Limit, Resource, SchedulingPolicy
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT


def ender(base: type, method: str, answer: Any) -> type:
    """A component of a kind that ends whatever its ``doomed`` names, from one method."""

    def end(self: Any, *args: Any) -> Any:
        for name in self.doomed:
            request = self.ctx.view.request(name)
            if request is not None:
                self.ctx.end(request, "because")
        return answer(*args) if callable(answer) else answer

    return type("Ender", (base,), {"name": "ender", "doomed": (), method: end})


class Passive(Limit):
    affects_decode = True

    def max_tokens(self, request: Any, num_tokens: int, view: Any) -> int:
        return num_tokens


class Seats(Resource):
    def reserve(self, request: Any) -> bool:
        return True

    def unreserve(self, request: Any) -> None:
        pass


BEFORE = [
    ("control", Control, "caps", Caps()),
    ("policy", SchedulingPolicy, "running_to_preempt", ()),
    ("gate", Gate, "open", True),
    ("gate", Gate, "pre_filter", ADMIT),
    ("gate", Gate, "filter", ADMIT),
    ("limit", Passive, "max_tokens", lambda request, num_tokens, view: num_tokens),
    ("resource", Seats, "reserve", True),
    ("gate", Gate, "on_admit", None),
]


@pytest.mark.parametrize(("kind", "base", "method", "answer"), BEFORE, ids=lambda v: str(v)[:20])
def test_a_request_that_a_component_ends_is_not_planned(
    make_bench: Any, kind: str, base: type, method: str, answer: Any
) -> None:
    """Of a, that is looked at now, and b, behind it: neither is in the plan."""
    cls = ender(base, method, answer)
    where = {"policy": {"ender": {}}} if kind == "policy" else {kind: [{"use": "ender"}]}
    options = {"policy": "ender"} if kind == "policy" else {}
    b = make_bench(plugins=[make_plugin(**{kind: [cls]})], sections=where, **options)
    cls.doomed = ("a", "b")  # type: ignore[attr-defined]
    for name in "abc":
        b.add(name, 4, 2)
    assert b.schedule() == {"c": 4}
    b.update()
    assert {name: finish.detail for name, finish in b.finished.items()} == {
        "a": "because",
        "b": "because",
    }
    b.drain()


def test_a_running_request_that_a_mark_or_alarm_ends_is_not_planned(make_bench: Any) -> None:
    class Marks(Gate):
        name = "marks"

        def on_admit(self, request: Any, hit: int, need: int) -> None:
            if request.request_id == "a":
                self.ctx.call_at_tokens(request, num_computed_tokens=6)
            else:
                self.ctx.call_at(3.0, request)

        def on_tokens(self, request: Any, payload: Any) -> None:
            self.ctx.end(request, "mark")

        def on_timer(self, payload: Any) -> None:
            self.ctx.end(payload, "alarm")

    b = make_bench(plugins=[make_plugin(gate=[Marks])], sections={"gate": [{"use": "marks"}]})
    b.add("a", 4, 9)
    b.add("b", 4, 9)
    assert b.run(4) == [{"a": 4, "b": 4}, {"a": 1, "b": 1}, {"a": 1, "b": 1}, {}]
    assert {name: f.detail for name, f in b.finished.items()} == {"a": "mark", "b": "alarm"}


def test_a_request_that_is_planned_already_ends_behind_the_plan(make_bench: Any) -> None:
    """a is admitted before b's gate ends it: others may count on what a computes."""
    cls = ender(Gate, "pre_filter", ADMIT)
    b = make_bench(plugins=[make_plugin(gate=[cls])], sections={"gate": [{"use": "ender"}]})
    b.add("a", 4, 2)
    b.step()
    b.add("b", 4, 2)
    cls.doomed = ("a",)  # type: ignore[attr-defined]
    assert b.schedule() == {"a": 1, "b": 4}
    assert list(b.scheduler.requests) == ["b"]
    b.update()
    b.drain()


def test_backfill_passes_a_request_so_often_and_no_more(make_bench: Any) -> None:
    b = make_bench(block_size=4, usable=8, backfill=2, max_bypasses=3, max_num_seqs=4)
    b.add("runs", 16, 40)
    b.step()
    b.add("large", 28, 1)
    for i in range(6):
        b.add(f"small{i}", 3, 1)
    served = [name for granted in b.steps(6) for name in granted if name != "runs"]
    assert served == ["small0", "small1", "small2"]
    assert b.scheduler.requests["large"].num_bypassed == 3
    b.scheduler.abort("runs")
    assert b.step() == {"large": 28, "small3": 3}
    b.drain()


def test_three_prompts_that_cannot_all_go_on_are_not_all_admitted(make_bench: Any) -> None:
    """8 blocks, each prompt needs 4 of them, a block a step."""
    limit = {"limit": [{"use": "long-prefill", "threshold": 4}]}
    b = make_bench(block_size=4, usable=8, sections=limit)
    for name in "abc":
        b.add(name, 16, 1)
    assert b.steps(4) == [{"a": 4, "b": 4}] * 4
    b.drain()


@pytest.mark.parametrize(("need", "first"), [("full", {"a": 4}), ("step", {"a": 4, "b": 4})])
def test_a_watermark_counts_what_half_computed_prompts_need(
    make_bench: Any, need: str, first: dict[str, int]
) -> None:
    sections = {
        "limit": [{"use": "long-prefill", "threshold": 4}],
        "gate": [{"use": "watermark", "fraction": 0.12, "need": need}],
    }
    b = make_bench(block_size=4, usable=8, sections=sections)
    b.add("a", 16, 1)
    b.add("b", 16, 1)
    assert b.step() == first  # beside the two prompts one block would have to stay free
