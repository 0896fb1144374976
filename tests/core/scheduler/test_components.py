"""What components may do, and what becomes of those that misbehave."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define

from batchwright import PluginError, RequestRefusedError, RequestStatus, StepError
from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.protocols import (
    Caps,
    Control,
    Gate,
    Limit,
    Observer,
    Resource,
    SchedulingPolicy,
    Victim,
)
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Defer, Reject, Stop, Wait


@pytest.fixture
def with_parts(make_bench: Any) -> Any:
    """A bench with classes of mine, selected; lists replace the default lists."""

    def make(*classes: type, **options: Any) -> Any:
        by_kind: dict[str, list[type]] = {}
        for cls in classes:
            kind = next(kind for kind, base in COMPONENT_KINDS.items() if issubclass(cls, base))
            by_kind.setdefault(kind, []).append(cls)
        scheduler, sections = {}, {}
        for kind, offered in by_kind.items():
            if kind in ("policy", "victim"):
                scheduler[kind] = offered[0].name  # type: ignore[attr-defined]
            else:
                sections[kind] = [{"use": cls.name} for cls in offered]  # type: ignore[attr-defined]
        options.setdefault("sections", {}).update(sections)
        return make_bench(plugins=[make_plugin(**by_kind)], **scheduler, **options)

    return make


def part(bench: Any, cls: type) -> Any:
    return next(c for c in bench.scheduler.components if isinstance(c, cls))


class TestGates:
    @pytest.mark.parametrize("phase", ["pre_filter", "filter"])
    def test_gate_stop_ends_the_scan(self, with_parts: Any, phase: str) -> None:
        def judge(self: Any, request: Any, *rest: Any) -> Any:
            return Stop("not b") if request.request_id == "b" else ADMIT

        gate = type("G", (Gate,), {"name": "g", phase: judge})
        b = with_parts(gate)
        for name in "abc":
            b.add(name, 4, 4)
        assert b.step() == {"a": 4}
        assert b.scheduler.requests["b"].waiting_reason == "gate 'g': not b"

    def test_gate_stop_may_be_passed_by_backfill(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"

            def filter(self, request: Any, need: Any, hit: Any, view: Any) -> Any:
                return Stop("large") if need.num_full_blocks > 1 else ADMIT

        b = with_parts(G, backfill=1)
        for name, size in (("large", 40), ("small", 4), ("larger", 50), ("late", 4)):
            b.add(name, size, 4)
        assert b.step() == {"small": 4}  # one may be passed, the next ends the scan
        order = [r.request_id for r in b.scheduler.components.policy.queue]
        assert order == ["large", "larger", "late"]

    def test_gate_skip_without_key_is_bounded_by_the_window(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return Defer(reason="odd") if int(request.request_id) % 2 else ADMIT

        b = with_parts(G, scan_window=2)
        for i in range(1, 9):
            b.add(str(i), 4, 40)
        assert list(b.step()) == ["2", "4"]
        assert list(b.step()) == ["2", "4"]
        b.scheduler.abort(["1", "3"])
        assert list(b.step()) == ["2", "4", "6", "8"]

    def test_gate_reject_while_waiting_ends_the_request(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return Reject("too late")

        b = with_parts(G)
        b.add("r", 4, 4)
        b.step()
        finish = b.finished["r"]
        assert finish.status is RequestStatus.FINISHED_ERROR
        assert finish.detail == "gate 'g': too late"

    def test_gate_reject_at_submit_refuses(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"

            def pre_enqueue(self, request: Any) -> Any:
                return Reject("closed")

        b = with_parts(G)
        with pytest.raises(RequestRefusedError, match="gate 'g': closed"):
            b.add("r", 4, 4)
        assert b.scheduler.requests == {}

    def test_gate_scan_closed_admits_nobody(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"
            is_open = False

            def open(self, view: Any) -> bool:
                return self.is_open

        b = with_parts(G)
        b.add("r", 4, 4)
        assert b.step() == {}
        part(b, G).is_open = True
        assert b.step() == {"r": 4}

    def test_gate_park_while_waiting_and_notice_reuse(self, with_parts: Any) -> None:
        class G(Gate):
            name = "g"

            @define
            class Data:
                is_seen: bool = False

            def pre_filter(self, request: Any, view: Any) -> Any:
                return ADMIT if self.ctx.data(request).is_seen else self._park(request)

            def _park(self, request: Any) -> Any:
                self.ctx.data(request).is_seen = True
                return Wait("key", "once")

        b = with_parts(G)
        r = b.add("r", 4, 4)
        b.step()
        assert r.status is RequestStatus.PARKED
        assert "once" in r.waiting_reason
        for key in ("unknown", "key", "key"):
            b.scheduler.signal(key)
        assert b.step() == {"r": 4}

    @pytest.mark.parametrize("answer", [None, True, "admit", 3])
    def test_gate_nonsense_ends_the_request_alone(self, with_parts: Any, answer: Any) -> None:
        class G(Gate):
            name = "g"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return answer if request.request_id == "bad" else ADMIT

        b = with_parts(G)
        b.add("bad", 4, 4)
        b.add("good", 4, 4)
        assert b.step() == {"good": 4}
        assert b.finished["bad"].status is RequestStatus.FINISHED_ERROR
        assert "gate 'g'" in b.finished["bad"].detail
        assert "pre_filter()" in b.finished["bad"].detail


class TestQueueLimit:
    def test_queue_limit_requests(self, make_bench: Any) -> None:
        b = make_bench(sections={"gate": [{"use": "queue-limit", "requests": 2}]}, max_num_seqs=1)
        b.add("a", 4, 4)
        b.add("b", 4, 4)
        with pytest.raises(RequestRefusedError, match="2 requests wait already"):
            b.add("c", 4, 4)
        b.step()
        b.add("c", 4, 4)
        b.drain()
        assert list(b.finished) == ["a", "b", "c"]

    def test_queue_limit_prompt_tokens(self, make_bench: Any) -> None:
        gates = [{"use": "queue-limit", "prompt_tokens": 100}]
        b = make_bench(sections={"gate": gates}, max_num_seqs=1)
        b.add("larger than the bound, but alone", 150, 4)
        with pytest.raises(RequestRefusedError, match="150 prompt tokens wait already"):
            b.add("b", 4, 4)
        b.step()
        b.add("b", 60, 4)
        b.add("c", 40, 4)
        with pytest.raises(RequestRefusedError, match="prompt_tokens = 100"):
            b.add("d", 1, 4)
        b.scheduler.abort("b")
        b.add("d", 60, 4)
        b.drain()


class TestControls:
    def test_caps_compose_by_minimum(self, with_parts: Any) -> None:
        class Tokens(Control):
            name = "tokens"

            def caps(self, view: Any) -> Caps:
                return Caps(num_tokens=50, num_admissions=5)

        class Admissions(Control):
            name = "admissions"

            def caps(self, view: Any) -> Caps:
                return Caps(num_admissions=2, num_prefill_tokens=30)

        b = with_parts(Tokens, Admissions)
        for name in "abcd":
            b.add(name, 12, 50)
        assert b.step() == {"a": 12, "b": 12}  # two admissions
        assert b.step() == {"a": 1, "b": 1, "c": 12, "d": 12}
        b.add("long", 100, 50)
        assert b.step() == {**dict.fromkeys("abcd", 1), "long": 30}

    def test_a_cap_on_decodes_spares_others_and_holds_for_nobody_alone(
        self, with_parts: Any
    ) -> None:
        """One of three decodes beside a prompt; all of them where there is none."""

        class Decodes(Control):
            name = "decodes"

            def caps(self, view: Any) -> Caps:
                return Caps(num_decode_tokens=0 if view.num_waiting else 1)

        b = with_parts(Decodes, max_num_seqs=4)
        for name in "abc":
            b.add(name, 4, 50)
        assert b.step() == dict.fromkeys("abc", 4)
        assert b.step() == {"a": 1}
        b.add("d", 10, 50)
        assert b.step() == {"d": 10}
        b.add("e", 10, 50)  # there is no seat
        assert b.step() == dict.fromkeys("abcd", 1)

    def test_caps_of_nonsense_fall_back_and_end_the_run(self, with_parts: Any) -> None:
        class Bad(Control):
            name = "bad"

            def caps(self, view: Any) -> Any:
                return Caps(num_tokens=-1)

        b = with_parts(Bad)
        b.add("a", 4, 9)
        assert b.step() == {"a": 4}
        assert b.step() == {"a": 1}
        with pytest.raises(PluginError, match=r"control 'bad'.*caps\(\).*3 faults in a row"):
            b.step()


class TestLimits:
    def test_a_limit_on_decodes_is_asked_for_every_one(self, with_parts: Any) -> None:
        class Alternate(Limit):
            name = "alternate"
            affects_decode = True

            def max_tokens(self, request: Any, num_tokens: int, view: Any) -> int:
                turn = view.step_id % 2 == int(request.request_id) % 2
                return num_tokens if turn or num_tokens > 1 else 0

        b = with_parts(Alternate)
        b.add("0", 4, 9)
        b.add("1", 4, 9)
        assert b.step() == {"0": 4, "1": 4}
        assert b.steps(4) == [{"1": 1}, {"0": 1}, {"1": 1}, {"0": 1}]

    @pytest.mark.parametrize("answer", [-1, 1.5, None, True])
    def test_a_limit_of_nonsense_ends_the_request(self, with_parts: Any, answer: Any) -> None:
        class Bad(Limit):
            name = "bad"

            def max_tokens(self, request: Any, num_tokens: int, view: Any) -> Any:
                return answer if request.request_id == "bad" else num_tokens

        b = with_parts(Bad)
        b.add("bad", 4, 9)
        b.add("good", 4, 9)
        assert b.step() == {"good": 4}
        assert "limit 'bad'" in b.finished["bad"].detail
        assert "max_tokens()" in b.finished["bad"].detail


class Slots(Resource):
    """Two slots; whoever gets none waits until one is released."""

    name = "slots"

    def setup(self) -> None:
        self.free = 2
        self.waits = True

    def never(self, request: Any) -> str | None:
        return "needs three slots" if request.hints.get("slots") == 3 else None

    def reserve(self, request: Any) -> bool:
        if not self.free:
            return False
        self.free -= 1
        return True

    def unreserve(self, request: Any) -> None:
        self.free += 1
        self.ctx.signal("slot")

    def waits_for(self, request: Any) -> str | None:
        return "slot" if self.waits else None


class TestResources:
    def test_slots_are_never_exceeded_and_all_return(self, with_parts: Any) -> None:
        b = with_parts(Slots)
        slots = part(b, Slots)
        for i in range(6):
            b.add(str(i), 4, 2 + i)
        while b.scheduler.has_unfinished:
            b.step()
            assert slots.free == 2 - len(b.scheduler.running)
        assert slots.free == 2
        assert list(b.finished) == [str(i) for i in range(6)]

    def test_a_failed_allocation_gives_the_slot_back(self, with_parts: Any) -> None:
        b = with_parts(Slots, usable=4, sections={"gate": []})
        b.add("a", 40, 9)
        b.step()
        b.add("b", 40, 9)
        b.step()
        assert part(b, Slots).free == 1
        b.drain()
        assert part(b, Slots).free == 2

    def test_what_can_never_be_served_is_refused(self, with_parts: Any) -> None:
        b = with_parts(Slots)
        with pytest.raises(RequestRefusedError, match="resource 'slots': needs three"):
            b.add("r", 4, 4, hints={"slots": 3})

    def test_a_resource_without_a_key_ends_the_scan(self, with_parts: Any) -> None:
        b = with_parts(Slots)
        part(b, Slots).waits = False
        for name in "abc":
            b.add(name, 4, 3)
        b.step()
        assert b.scheduler.requests["c"].waiting_reason == "resource 'slots' is short"
        b.drain()

    def test_a_raising_resource_ends_the_request_and_releases_others(self, with_parts: Any) -> None:
        class Broken(Resource):
            name = "broken"

            def reserve(self, request: Any) -> bool:
                raise OSError("no device")

            def unreserve(self, request: Any) -> None:
                raise AssertionError("nothing was reserved")

        b = with_parts(Slots, Broken)
        b.add("r", 4, 4)
        b.step()
        assert "resource 'broken'" in b.finished["r"].detail
        assert "reserve() raised OSError: no device" in b.finished["r"].detail
        assert part(b, Slots).free == 2


class TestPolicies:
    def test_key_orders_the_queue(self, with_parts: Any) -> None:
        class Short(SchedulingPolicy):
            name = "short"

            def key(self, request: Any) -> Any:
                return request.num_prompt_tokens

        b = with_parts(Short, max_num_seqs=1)
        for name, size in (("c", 9), ("a", 3), ("b", 5), ("a2", 3)):
            b.add(name, size, 1)
        assert [next(iter(b.step())) for _ in range(4)] == ["a", "a2", "b", "c"]

    def test_running_key_orders_only_under_contention(self, with_parts: Any) -> None:
        asked: list[str] = []

        class Last(SchedulingPolicy):
            name = "last"

            def running_key(self, request: Any) -> Any:
                asked.append(request.request_id)
                return -int(request.request_id)

        b = with_parts(Last, budget=20, max_num_seqs=4)
        for i in range(3):
            b.add(str(i), 4, 50)
        b.step()
        asked.clear()
        assert list(b.step()) == ["0", "1", "2"]
        assert asked == []  # nobody could go short
        b.add("3", 40, 50)
        assert b.step()["3"] == 17
        # "3" owes 23 and only 20 are there: the policy's order decides.
        assert b.step() == {"3": 20}
        assert asked[:4] == ["0", "1", "2", "3"]

    @pytest.mark.parametrize(
        ("usable", "served", "asked_for"),
        [
            (6, {"0": 1, "1": 1, "2": 7}, []),  # 9 of 20 tokens, at most 2 of 2 blocks
            (5, {"2": 7, "1": 1, "0": 1}, ["0", "1", "2"]),  # maybe one block too few
        ],
    )
    def test_running_key_is_asked_where_a_debt_may_not_fit(
        self, with_parts: Any, usable: int, served: dict[str, int], asked_for: list[str]
    ) -> None:
        """A prompt in chunks beside decodes: the order decides nothing until one goes short."""
        asked: list[str] = []

        class Last(SchedulingPolicy):
            name = "last"

            def running_key(self, request: Any) -> Any:
                asked.append(request.request_id)
                return -int(request.request_id)

        b = with_parts(Last, budget=20, max_num_seqs=4, usable=usable)
        for i in range(2):
            b.add(str(i), 4, 50)
        b.step()
        b.add("2", 25, 50)
        assert b.step() == {"0": 1, "1": 1, "2": 18}
        assert list(b.step().items()) == list(served.items())
        assert asked == asked_for
        assert b.scheduler._state.counts.batched_decodes == (2 if asked_for else 4)

    @pytest.mark.parametrize("key", [float("nan"), "x", None, (1, "x")])
    def test_a_bad_key_ends_the_request(self, with_parts: Any, key: Any) -> None:
        class Bad(SchedulingPolicy):
            name = "bad"

            def key(self, request: Any) -> Any:
                return key if request.request_id == "bad" else 0

        b = with_parts(Bad)
        b.add("bad", 4, 4)
        b.add("good", 4, 4)
        assert b.step() == {"good": 4}
        detail = b.finished["bad"].detail
        assert detail.startswith("policy 'bad' (")
        assert "key() raised" in detail

    def test_a_failing_queue_falls_back_to_arrival_order(self, with_parts: Any) -> None:
        from batchwright.queues import KeyedQueue

        class Broken(KeyedQueue):
            fails = True

            def peek(self) -> Any:
                if self.fails:
                    raise RuntimeError("lost")
                return super().peek()

        class Bad(SchedulingPolicy):
            name = "bad"

            def make_queue(self) -> Any:
                return Broken(lambda request: -int(request.request_id))

        b = with_parts(Bad, max_num_seqs=1)
        for i in range(4):
            b.add(str(i), 4, 1)
        assert b.step() == {"0": 4}
        b.scheduler.components.policy.queue.fails = False
        assert b.step() == {"3": 4}
        b.scheduler.components.policy.queue.fails = True
        b.step()
        b.step()
        b.add("9", 4, 1)
        with pytest.raises(PluginError, match=r"policy 'bad'.*peek\(\)"):
            b.step()

    def test_marks_and_alarms_come_due(self, with_parts: Any) -> None:
        events: list[Any] = []

        class Marking(SchedulingPolicy):
            name = "marking"

            def on_add(self, request: Any) -> None:
                for at in (4, 7, 5):
                    self.ctx.call_at_tokens(request, num_computed_tokens=at, payload=at)
                self.ctx.call_at(2.0, "two")
                self.ctx.call_at(1.0, "one")

            def on_tokens(self, request: Any, payload: Any) -> None:
                events.append((self.ctx.view.step_id, payload, request.num_computed_tokens))

            def on_timer(self, payload: Any) -> None:
                events.append((self.ctx.view.step_id, payload))

        b = with_parts(Marking)
        b.add("r", 4, 9)
        b.steps(3)  # computed 4, 5, 6
        assert events == [(1, 4, 4), (2, 5, 5)]
        b.scheduler.clock.advance(1.5)
        b.steps(2)
        b.scheduler.clock.advance(1.5)
        b.step()
        assert events[2:] == [(3, "one"), (4, 7, 7), (5, "two")]

    def test_marks_set_in_mid_decode(self, with_parts: Any) -> None:
        seen: list[int] = []

        class Marking(SchedulingPolicy):
            name = "marking"

            def on_tokens(self, request: Any, payload: Any) -> None:
                seen.append(request.num_computed_tokens)

        b = with_parts(Marking)
        r = b.add("r", 4, 20)
        b.steps(4)
        ctx = b.scheduler.components.policy.ctx
        ctx.call_at_tokens(r.view, num_computed_tokens=10)
        ctx.call_at_tokens(r.view, num_computed_tokens=2)  # passed already: due at once
        b.steps(10)
        assert seen == [7, 10]

    def test_usage_tells_of_service_without_being_pushed(self, with_parts: Any) -> None:
        class Accounts(SchedulingPolicy):
            name = "accounts"

            def account(self, request: Any) -> Any:
                return request.client

        b = with_parts(Accounts, block_size=4)
        usage = b.scheduler.components.policy.ctx.usage
        b.add("a", 8, 20, client="x")
        b.add("b", 6, 20, client="y")
        b.add("c", 6, 20, client="y")
        b.steps(5)
        x, y, nobody = usage["x"], usage["y"], usage["nobody"]
        assert (x.prefill_tokens, x.decode_tokens) == (8, 4)
        assert (y.prefill_tokens, y.decode_tokens) == (12, 8)
        assert (nobody.prefill_tokens, nobody.decode_tokens, nobody.block_steps) == (0, 0, 0)
        # a holds 2, 3, 3, 3, 3 blocks in steps 0 to 4; b and c 2, 2, 2, 3, 3 each.
        assert x.block_steps == 2 + 3 + 3 + 3 + 3
        assert y.block_steps == 2 * (2 + 2 + 2 + 3 + 3)
        b.drain()
        assert x.decode_tokens == 19
        assert (x.num_blocks, y.num_blocks) == (0, 0)
        assert y.recomputed_tokens == 0


class TestVictims:
    @pytest.mark.parametrize("answer", [None, "nobody", ValueError])
    def test_a_bad_victim_falls_back_to_the_tail(self, with_parts: Any, answer: Any) -> None:
        class Bad(Victim):
            name = "bad"

            def choose(self, running: Any, needy: Any, view: Any) -> Any:
                if answer is ValueError:
                    raise ValueError("cannot choose")
                return answer

        b = with_parts(Bad, block_size=4, usable=6)
        b.add("a", 8, 8)
        b.add("b", 8, 8)
        b.steps(6)
        assert b.scheduler.requests["b"].num_preemptions == 1
        assert "victim 'bad'" in next(iter(b.scheduler.fault_counts))


class TestObservers:
    def test_an_observer_that_raises_is_disabled_once(self, with_parts: Any, caplog: Any) -> None:
        class Bad(Observer):
            name = "bad"

            def on_step(self, record: Any) -> None:
                raise KeyError("x")

            def on_finish(self, request: Any) -> None:
                raise AssertionError("it is disabled")

        b = with_parts(Bad)
        b.add("a", 4, 3)
        b.drain()
        warnings = [r for r in caplog.records if "observer 'bad'" in r.getMessage()]
        assert len(warnings) == 1
        assert "it is disabled for the rest of the run" in warnings[0].getMessage()
        assert b.scheduler.fault_counts == {"observer 'bad' (MadePlugin-0): on_step()": 1}

    def test_a_component_that_cannot_be_closed_is_counted(
        self, with_parts: Any, caplog: Any
    ) -> None:
        class Full(Observer):
            name = "full"

            def close(self) -> None:
                raise OSError(28, "No space left on device")

        b = with_parts(Full)
        b.scheduler.close()
        where = "observer 'full' (MadePlugin-0): close()"
        assert b.scheduler.fault_counts == {where: 1}
        assert f"{where} raised OSError: [Errno 28] No space left on device" in caplog.text

    def test_a_component_cannot_write_to_a_request(self, with_parts: Any) -> None:
        class Writer(Gate):
            name = "writer"

            def pre_filter(self, request: Any, view: Any) -> Any:
                request.priority = 7
                return ADMIT

        b = with_parts(Writer)
        b.add("a", 4, 3)
        b.step()
        assert "may not set 'priority'" in b.finished["a"].detail

    def test_reentering_the_scheduler_is_refused(self, with_parts: Any) -> None:
        class Reenters(Gate):
            name = "reenters"

            def pre_filter(self, request: Any, view: Any) -> Any:
                request.hints["scheduler"].schedule()
                return ADMIT

        b = with_parts(Reenters)
        b.add("a", 4, 3, hints={"scheduler": b.scheduler})
        b.add("b", 4, 3, hints={"scheduler": b.scheduler})
        b.step()
        assert "StepError: schedule() was called from within" in b.finished["a"].detail


class TestProgressGuard:
    def test_a_gate_that_never_opens_is_bypassed_and_named(
        self, with_parts: Any, caplog: Any
    ) -> None:
        class Never(Gate):
            name = "never"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return Stop("no")

        b = with_parts(Never)
        b.add("a", 4, 2)
        b.add("b", 4, 2)
        b.drain(limit=20)
        assert list(b.finished) == ["a", "b"]
        assert b.scheduler.progress_guard.num_interventions >= 1
        assert "request 'a' could not be placed: gate 'never': no" in caplog.text

    def test_a_key_that_nobody_releases(self, with_parts: Any) -> None:
        class Lost(Gate):
            name = "lost"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return Defer(until="lost")

        b = with_parts(Lost)
        b.add("a", 4, 2)
        b.drain(limit=20)
        assert "a" in b.finished

    def test_a_limit_of_zero(self, with_parts: Any) -> None:
        class Zero(Limit):
            name = "zero"
            affects_decode = True

            def max_tokens(self, request: Any, num_tokens: int, view: Any) -> int:
                return 0

        b = with_parts(Zero)
        b.add("a", 4, 2)
        b.drain(limit=20)
        assert len(b.outputs["a"]) == 2

    def test_an_alarm_is_waited_for(self, with_parts: Any) -> None:
        class Later(Gate):
            name = "later"

            def setup(self) -> None:
                self.is_open = False

            def on_add(self, request: Any) -> None:
                self.ctx.call_at(10.0)

            def on_timer(self, payload: Any) -> None:
                self.is_open = True

            def open(self, view: Any) -> bool:
                return self.is_open

        b = with_parts(Later)
        b.add("a", 4, 2)
        assert b.steps(10) == [{}] * 10
        assert b.scheduler.progress_guard.num_interventions == 0
        b.scheduler.clock.advance(b.scheduler.next_timer)
        assert b.step() == {"a": 4}


class TestTurns:
    def test_schedule_twice_without_update(self, make_bench: Any) -> None:
        b = make_bench()
        b.add("a", 4, 2)
        b.schedule()
        with pytest.raises(StepError, match="pipeline_depth = 1"):
            b.scheduler.schedule()

    def test_update_twice_or_out_of_order(self, make_bench: Any) -> None:
        from batchwright import ModelOutput

        b = make_bench(pipeline_depth=2)
        b.add("a", 4, 5)
        first, second = b.scheduler.schedule(), b.scheduler.schedule()
        assert second.num_scheduled_tokens == {"a": 1}
        with pytest.raises(StepError, match="plan of step 1, but step 0 is next"):
            b.scheduler.update_from_output(second, ModelOutput(["a"], [[7]]))
        b.scheduler.update_from_output(first, ModelOutput(["a"], [[7]]))
        b.scheduler.update_from_output(second, ModelOutput(["a"], [[8]]))
        with pytest.raises(StepError, match="none is in flight"):
            b.scheduler.update_from_output(second, ModelOutput(["a"], [[8]]))
        assert list(b.scheduler.requests["a"].output_token_ids) == [7, 8]

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ({}, "0 tokens where one is sampled"),
            ({"a": []}, "0 tokens where one is sampled"),
            ({"a": [1, 2]}, "2 tokens where one is sampled"),
            ({"a": [-1]}, "-1, which is no token id"),
            ({"a": ["x"]}, "'x', which is no token id"),
        ],
    )
    def test_an_executor_that_answers_nonsense_ends_the_request(
        self, make_bench: Any, rows: dict[str, Any], message: str
    ) -> None:
        from batchwright import ModelOutput

        b = make_bench()
        b.add("a", 4, 5)
        b.add("b", 4, 5)
        for _ in range(2):
            plan = b.scheduler.schedule()
            output = ModelOutput(["b", *rows], [[5], *rows.values()])
            if plan.step_id == 0:
                output = ModelOutput(["a", "b"], [[4], [5]])
            outputs = b.scheduler.update_from_output(plan, output)
        assert message in outputs.finished["a"].detail
        assert b.scheduler.requests["b"].num_output_tokens == 2

    def test_errors_of_the_executor_end_one_request(self, make_bench: Any) -> None:
        from batchwright import ModelOutput

        b = make_bench()
        b.add("a", 4, 5)
        b.add("b", 4, 5)
        plan = b.scheduler.schedule()
        output = ModelOutput(["a", "b"], [[], [5]], errors={"a": "NaN in logits"})
        outputs = b.scheduler.update_from_output(plan, output)
        assert outputs.finished["a"].detail == "NaN in logits"
        assert outputs.req_ids == ["b"]

    def test_blocks_of_a_failed_computation_are_not_hit(self, make_bench: Any) -> None:
        from batchwright import ModelOutput

        b = make_bench(block_size=4, budget=8, max_num_seqs=4)
        prompt = b.tokens(16)
        b.add("a", prompt, 5)
        b.step()
        plan = b.scheduler.schedule()
        b.scheduler.update_from_output(plan, ModelOutput(["a"], [[]], errors={"a": "NaN"}))
        again = b.add("again", [*prompt, 1], 1)
        b.step()
        assert again.num_cached_tokens == 8  # what the first step computed, not the second

    def test_pause_admits_nobody_and_goes_on(self, make_bench: Any) -> None:
        b = make_bench()
        b.add("a", 4, 5)
        b.step()
        b.scheduler.pause()
        b.add("b", 4, 5)
        assert b.step() == {"a": 1}
        b.scheduler.resume()
        assert b.step() == {"a": 1, "b": 4}

    def test_recover_recomputes_everything(self, make_bench: Any) -> None:
        """After a failure the executor is told everything anew, outputs included."""
        b = make_bench()
        b.add("a", 20, 6)
        b.add("b", 4, 6)
        b.steps(3)
        known = {r.request_id: list(r.token_ids) for r in b.scheduler.running}
        b.schedule()
        b.scheduler.recover()
        assert b.free == b.kv.num_usable_blocks
        b.schedule()
        assert [new.req_id for new in b.plan.scheduled_new_reqs] == ["a", "b"]
        for new in b.plan.scheduled_new_reqs:
            told = [*new.prompt_token_ids, *new.output_token_ids]
            assert told == known[new.req_id]
            assert new.num_computed_tokens == 0
        b.update()
        b.drain()
        assert {name: len(out) for name, out in b.outputs.items()} == {"a": 6, "b": 6}


class TestStops:
    def test_eos_stop_tokens_and_min_tokens(self, make_bench: Any) -> None:
        b = make_bench()
        b.add("eos", 4, 9, sampling={"ignore_eos": False}, eos_token_id=2)
        b.add("ignored", 4, 4, eos_token_id=2)
        b.add("stop", 4, 9, sampling={"stop_token_ids": (7,)})
        b.add("min", 4, 9, sampling={"stop_token_ids": (7,), "min_tokens": 3})
        b.schedule()
        b.update()
        for _ in range(5):
            b.schedule()
            b.update({"eos": [2], "ignored": [2], "stop": [7], "min": [7]})
        assert {name: f.detail for name, f in b.finished.items()} == {
            "eos": "eos",
            "stop": "stop_token:7",
            "min": "stop_token:7",
            "ignored": "max_tokens",
        }
        assert {name: len(tokens) for name, tokens in b.outputs.items()} == {
            "eos": 2,
            "ignored": 4,
            "stop": 2,
            "min": 3,
        }

    @pytest.mark.parametrize(("accepted", "computed", "known"), [(0, 7, 8), (1, 8, 9), (3, 10, 11)])
    def test_drafts_are_verified(
        self, make_bench: Any, accepted: int, computed: int, known: int
    ) -> None:
        """After prefill 7 tokens are known; 1 + 3 are planned; some drafts are accepted."""
        from batchwright import ModelOutput

        b = make_bench(block_size=4)
        r = b.add("a", 6, 20)
        plan = b.scheduler.schedule()
        output = ModelOutput(["a"], [[5]], draft_token_ids={"a": [11, 12, 13]})
        b.scheduler.update_from_output(plan, output)
        plan = b.scheduler.schedule()
        assert plan.num_scheduled_tokens == {"a": 4}
        assert plan.scheduled_draft_token_ids == {"a": [11, 12, 13]}
        tokens = [*[11, 12, 13][:accepted], 99]
        b.scheduler.update_from_output(plan, ModelOutput(["a"], [tokens]))
        assert (r.num_computed_tokens, r.num_tokens) == (computed, known)
        b.drain()
        assert len(r.output_token_ids) == 20
