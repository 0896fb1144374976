"""Part 2 of the worked cases: kinds of faults that must not exist here, by their id."""

from __future__ import annotations

import hashlib
import random
import struct
from typing import Any

import pytest

from batchwright import (
    ConfigError,
    Request,
    RequestRefusedError,
    RequestStatus,
    SamplingParams,
    Scheduler,
)
from batchwright.protocols import Gate, Hasher
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Wait

LENGTH = RequestStatus.FINISHED_LENGTH


class TestB01NeverIsNotNotNow:
    def test_prompt_beyond_the_pool_is_refused(self, make_bench: Any) -> None:
        b = make_bench(usable=49, max_model_len=2048)
        with pytest.raises(RequestRefusedError, match=r"63 KV blocks .* 49 usable"):
            b.add("A", 1002, 1)
        assert b.scheduler.requests == {}
        b.add("B", 10, 5)
        b.drain()
        assert b.finished["B"].status is LENGTH

    @pytest.mark.parametrize(("max_tokens", "detail"), [(1, "max_tokens"), (2, "kv_capacity")])
    def test_prompt_of_exactly_the_pool(
        self, make_bench: Any, max_tokens: int, detail: str
    ) -> None:
        b = make_bench(usable=49, max_model_len=2048)
        b.add("C", 784, max_tokens)
        b.drain(limit=10)
        assert len(b.outputs["C"]) == 1
        assert (b.finished["C"].status, b.finished["C"].detail) == (LENGTH, detail)

    def test_small_pool_is_a_warning(self, make_bench: Any, caplog: Any) -> None:
        make_bench(usable=49, max_model_len=2048)
        assert "784 tokens, less than max_model_len = 2048" in caplog.text


@pytest.mark.parametrize("lookahead", [0, 3])
def test_the_last_one_standing_ends(make_bench: Any, lookahead: int) -> None:
    """A uses all 64 slots, yields 17 tokens and ends; B is served."""
    b = make_bench(usable=4, max_model_len=256, num_lookahead_tokens=lookahead, max_num_seqs=8)
    a = b.add("A", 48, 64)
    b.steps(5)
    b.add("B", 8, 4)
    b.drain(limit=60)
    assert len(b.outputs["A"]) == 17
    assert (b.finished["A"].status, b.finished["A"].detail) == (LENGTH, "kv_capacity")
    assert a.num_preemptions <= 1
    assert len(b.outputs["B"]) == 4


def test_the_last_one_standing_ends_with_drafts(make_bench: Any) -> None:
    """Drafts do not fit into the pool beside the last tokens: they are dropped."""
    from batchwright import ModelOutput

    b = make_bench(usable=4, max_model_len=256)
    b.add("A", 60, 64)
    while b.scheduler.has_unfinished:
        b.schedule()
        rows = {i: b.tokens(1) for i in b.plan.num_scheduled_tokens}
        output = ModelOutput(list(rows), list(rows.values()))
        output.draft_token_ids = {i: [1, 2, 3] for i in rows}
        outputs = b.scheduler.update_from_output(b.plan, output)
        b.outputs.setdefault("A", []).extend(t for row in outputs.new_token_ids for t in row)
        b.finished.update(outputs.finished)
        assert list(b.kv.audit({})) == []
    assert len(b.outputs["A"]) == 5
    assert b.finished["A"].detail == "kv_capacity"
    assert b.free == 4


def test_idle_cached_blocks_are_supply_once(make_bench: Any) -> None:
    """Z's hits are the only free blocks: it cannot have them and two more."""
    b = make_bench(usable=5)
    x = b.tokens(48)
    b.add("X", x, 1)
    b.drain()
    b.add("Y", 20, 13)
    b.steps(2)
    assert b.free == 3
    z = [*x, *b.tokens(32)]
    b.add("Z", z, 1)
    free_before = list(b.scheduler.components.kv_parts[1])
    for _ in range(11):
        assert b.step() == {"Y": 1}
        assert list(b.scheduler.components.kv_parts[1])[:3] == free_before
    assert "Y" in b.finished
    b.schedule()
    (new,) = b.plan.scheduled_new_reqs
    assert (new.num_computed_tokens, b.plan.num_scheduled_tokens) == (48, {"Z": 32})


@pytest.mark.parametrize(("size", "hit"), [(64, 48), (16, 0), (1, 0), (17, 16)])
def test_a_full_hit_leaves_one_token_to_compute(make_bench: Any, size: int, hit: int) -> None:
    b = make_bench()
    prompt = b.tokens(size)
    b.add("first", prompt, 1)
    b.drain()
    second = b.add("second", prompt, 1)
    assert b.step() == {"second": size - hit}
    assert second.num_cached_tokens == hit
    longer = b.add("longer", [*prompt, *b.tokens(16)], 1)
    b.step()
    assert longer.num_cached_tokens == size // 16 * 16


def test_a_reused_block_is_not_found(make_bench: Any) -> None:
    b = make_bench(block_size=4, usable=2)
    x, y = list(range(1, 9)), list(range(11, 19))
    hits = []
    for name, prompt in (("x", x), ("y", y), ("x again", x)):
        request = b.add(name, prompt, 1)
        b.drain()
        hits.append(request.num_cached_tokens)
    assert hits == [0, 0, 0]


def test_one_of_two_equal_blocks_stays_findable(make_bench: Any) -> None:
    """Equal prompts side by side: when one's block is evicted the other's is found."""
    b = make_bench(block_size=4, usable=5)
    prompt = b.tokens(8)
    b.add("A", prompt, 1)
    b.add("B", prompt, 9)
    b.schedule()
    tables = {new.req_id: new.block_ids for new in b.plan.scheduled_new_reqs}
    assert tables["A"][0] == tables["B"][0]  # shared
    assert tables["A"][1] != tables["B"][1]  # computed twice
    b.update()
    assert "A" in b.finished
    b.add("evicts", 8, 1)  # takes what is free, A's second block last of all
    b.step()
    b.add("evicts more", 4, 1)
    b.step()
    b.add("C", [*prompt, *b.tokens(1)], 1)
    b.drain()
    assert b.kv.block_ids(b.add("later", prompt, 1).view) == []


def test_a_victim_that_was_planned_leaves_the_plan(make_bench: Any) -> None:
    """L is planned first; H then takes its blocks, and L's budget is returned."""
    b = make_bench(block_size=4, usable=5, budget=16, policy="priority", max_num_seqs=16)
    low = b.add("L", 8, 8, priority=5)
    b.step()
    b.add("H", 8, 8, priority=0)
    b.step()
    assert b.schedule() == {"H": 1}
    assert b.plan.total_num_scheduled_tokens == 1
    assert b.plan.preempted_req_ids == ["L"]
    assert "L" not in b.plan.scheduled_cached_reqs.req_ids
    assert low.status is RequestStatus.PREEMPTED
    b.update()
    b.drain()
    assert {name: len(tokens) for name, tokens in b.outputs.items()} == {"L": 8, "H": 8}


def test_hashes_of_a_planned_victim_are_taken_back(make_bench: Any) -> None:
    """What the victim was to fill in this step is not there to be hit."""
    b = make_bench(block_size=4, usable=5, budget=16, policy="priority", max_num_seqs=16)
    prompt = b.tokens(7)
    b.add("L", prompt, 8, priority=5)
    b.step()
    b.add("H", 8, 8, priority=0)
    b.step()  # L's 8th token: planned to fill its second block
    low = b.scheduler.requests["L"]
    known = list(low.token_ids)
    while low.status is RequestStatus.RUNNING:
        computed = low.num_computed_tokens
        b.step()
    probe = Request(request_id="probe", prompt_token_ids=[*known, *low.token_ids, 1, 2, 3])
    probe.component_data.extend([None] * 20)
    assert b.kv.lookup(probe.view).num_tokens <= computed
    b.drain()


@pytest.mark.parametrize("arrival", [0.0, 0, None])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_equal_keys_keep_insertion_order(
    make_bench: Any, policy: str, arrival: float | None
) -> None:
    b = make_bench(policy=policy, max_num_seqs=1)
    for name in ("d", "a", "c", "b"):
        b.add(name, 4, 2, arrival_time=arrival)
    served = [next(iter(b.step())) for _ in range(8)]
    assert served == ["d", "d", "a", "a", "c", "c", "b", "b"]


def test_order_survives_preemption(make_bench: Any) -> None:
    """Four equal requests in a pool for two: of equals the earliest running one yields,
    and it returns before those that came after it."""
    b = make_bench(block_size=4, usable=6, policy="priority", max_num_seqs=4)
    for name in ("d", "a", "c", "b"):
        b.add(name, 8, 8, arrival_time=0.0)
    waiting = []
    while b.scheduler.has_unfinished:
        b.step()
        waiting.append([r.request_id for r in b.scheduler.components.policy.queue])
    assert any("d" in order for order in waiting)
    assert all(order == sorted(order, key="dacb".index) for order in waiting)


class TestB23AStepMustHoldThePrompt:
    def test_small_budget_names_all_options(self) -> None:
        with pytest.raises(ConfigError) as refused:
            Scheduler.from_config(
                {"scheduler": {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048}}
            )
        for name in ("max_num_batched_tokens", "max_model_len", "enable_chunked_prefill"):
            assert name in str(refused.value)

    def test_small_budget_holds_for_the_cap_below(self) -> None:
        with pytest.raises(ConfigError, match="max_num_scheduled_tokens = 1024"):
            Scheduler.from_config(
                {
                    "model": {"max_model_len": 2048},
                    "scheduler": {
                        "enable_chunked_prefill": False,
                        "max_num_scheduled_tokens": 1024,
                    },
                }
            )

    def test_small_budget_whole_prompts_only(self, make_bench: Any) -> None:
        b = make_bench(enable_chunked_prefill=False, budget=100, max_model_len=100)
        b.add("A", 60, 3)
        b.add("B", 50, 3)
        b.add("C", 10, 3)
        assert b.step() == {"A": 60}  # B does not fit beside it, C waits behind B
        assert b.step() == {"A": 1, "B": 50, "C": 10}


class ParkAll(Gate):
    name = "park-hinted"

    def pre_enqueue(self, request: Any) -> Any:
        return Wait("never") if request.hints else ADMIT


class TestB28AbortInEveryState:
    @staticmethod
    def bench(make_bench: Any, **options: Any) -> Any:
        return make_bench(
            budget=32,
            max_num_seqs=8,
            plugins=[make_plugin(gate=[ParkAll])],
            sections={"gate": [{"use": "park-hinted"}, {"use": "full-need"}]},
            **options,
        )

    def ended(self, b: Any) -> None:
        assert b.finished["R"].status is RequestStatus.FINISHED_ABORTED
        assert "R" not in b.scheduler.requests
        b.drain()

    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 6])
    def test_abort_waiting_mid_chunk_decoding(self, make_bench: Any, steps: int) -> None:
        b = self.bench(make_bench)
        b.add("R", 100, 8)
        b.steps(steps)
        b.scheduler.abort("R")
        assert b.free == b.kv.num_usable_blocks
        b.step()
        assert b.plan.finished_req_ids == ["R"]
        self.ended(b)

    def test_abort_while_it_waits_for_a_key(self, make_bench: Any) -> None:
        b = self.bench(make_bench)
        b.add("R", 100, 8, hints={"park": True})
        b.step()
        b.scheduler.abort("R")
        b.scheduler.signal("never")  # late: nobody is there any more
        b.step()
        self.ended(b)

    def test_abort_preempted_waiting(self, make_bench: Any) -> None:
        b = self.bench(make_bench, block_size=4, usable=6)
        b.add("first", 8, 12)
        r = b.add("R", 8, 12)
        while r.status is not RequestStatus.PREEMPTED:
            b.step()
        b.scheduler.abort("R")
        b.step()
        self.ended(b)

    def test_abort_in_flight(self, make_bench: Any) -> None:
        """Blocks of a step in flight return when it is done, the end is told once."""
        b = self.bench(make_bench)
        b.add("R", 20, 8)
        b.schedule()
        b.scheduler.abort("R")
        assert b.free < b.kv.num_usable_blocks
        outputs = b.update()
        assert outputs.req_ids == []
        assert list(outputs.finished) == ["R"]
        assert b.free == b.kv.num_usable_blocks

    def test_abort_in_the_step_of_its_end(self, make_bench: Any) -> None:
        b = self.bench(make_bench)
        b.add("R", 20, 1)
        b.schedule()
        b.scheduler.abort("R")
        b.update()
        self.ended(b)

    def test_abort_twice_and_unknown(self, make_bench: Any) -> None:
        b = self.bench(make_bench)
        b.add("R", 20, 8)
        b.step()
        b.scheduler.abort(["R", "R", "nobody"])
        b.scheduler.abort("R")
        b.schedule()
        outputs = b.update()
        assert list(outputs.finished) == ["R"]
        assert b.plan.finished_req_ids == ["R"]
        self.ended(b)


def test_a_resumed_request_counts_after_the_hit(make_bench: Any) -> None:
    """A yields at step 2 with 9 known tokens and resumes at step 4 with 8 of them hit."""
    b = make_bench(block_size=4, usable=6)
    b.add("B", 13, 4)
    a = b.add("A", 7, 9)
    assert b.step() == {"B": 13, "A": 7}
    assert b.step() == {"B": 1, "A": 1}
    b.steps(2)
    assert a.num_preemptions == 1
    before = list(a.token_ids)
    granted = b.step()
    assert granted["A"] == 9 - 8
    assert a.num_tokens == len(before) + 1 == 10
    b.drain()
    assert len(b.outputs["A"]) == 9


class Weak(Hasher):
    name = "weak"
    digest_size = 1

    def digest(self, data: bytes) -> bytes:
        return bytes([sum(data) % 256])


def test_weak_hashes_are_refused(make_bench: Any) -> None:
    with pytest.raises(ConfigError, match=r"kv\.hasher: .*weak.* 1 bytes; at least 16"):
        make_bench(kv={"hasher": "weak"}, plugins=[make_plugin(hasher=[Weak])])


def test_hashes_are_the_same_in_every_process(make_bench: Any) -> None:
    """Exact digests: they depend on content alone, not on a seed of the process."""
    from batchwright_plugins.kv.block_table import BlockTable

    b = make_bench(block_size=4)
    request = b.add("r", [1, 2, 3, 4, 5], 1)
    table = BlockTable(request.view, b.scheduler.components.kv_parts[0], 4)
    content = bytes(32) + struct.pack("<4I", 1, 2, 3, 4)
    assert table.hashes(1) == [hashlib.sha256(content).digest()]


def test_salts_isolate(make_bench: Any) -> None:
    b = make_bench()
    prompt = b.tokens(40)
    hits = []
    for index, salt in enumerate([None, "s", "t", "s", None]):
        request = b.add(f"r{index}", prompt, 1, cache_salt=salt)
        b.drain()
        hits.append(request.num_cached_tokens)
    assert hits == [0, 0, 0, 32, 32]


class TestB35BadSizes:
    @pytest.mark.parametrize("max_tokens", [0, -1, 1.5, True])
    def test_max_tokens_out_of_range_are_refused(self, make_bench: Any, max_tokens: Any) -> None:
        b = make_bench(max_model_len=100)
        with pytest.raises(RequestRefusedError, match="max_tokens must be"):
            b.add("bad", 8, max_tokens)
        self.follow_up(b)

    @pytest.mark.parametrize(
        ("size", "reason"),
        [(0, "empty"), (100, "max_model_len - 1 = 99"), (101, "max_model_len - 1 = 99")],
    )
    def test_prompts_out_of_range_are_refused(
        self, make_bench: Any, size: int, reason: str
    ) -> None:
        b = make_bench(max_model_len=100)
        with pytest.raises(RequestRefusedError, match=reason):
            b.add("bad", size, 4)
        self.follow_up(b)

    def test_the_longest_prompt_gives_one_token(self, make_bench: Any) -> None:
        b = make_bench(max_model_len=100)
        b.add("long", 99, 4)
        b.drain()
        assert len(b.outputs["long"]) == 1
        assert b.finished["long"].detail == "max_model_len"
        self.follow_up(b)

    def test_no_max_tokens_means_up_to_max_model_len(self, make_bench: Any) -> None:
        b = make_bench(max_model_len=100)
        b.add("open", 40, None)
        b.drain()
        assert len(b.outputs["open"]) == 60

    def test_a_duplicate_id_is_refused(self, make_bench: Any) -> None:
        b = make_bench(max_model_len=100)
        request = b.add("twice", 8, 2)
        with pytest.raises(RequestRefusedError, match="live request has this id"):
            b.add("twice", 8, 2)
        assert b.scheduler.requests == {"twice": request}
        b.drain()
        self.follow_up(b)

    @staticmethod
    def follow_up(b: Any) -> None:
        assert b.scheduler.requests == {}
        b.add("follow-up", 8, 2)
        b.drain()
        assert len(b.outputs["follow-up"]) == 2


def test_decodes_are_not_starved_by_prompts(make_bench: Any) -> None:
    """Each of 8 decodes gets its token in every step, whatever arrives."""
    b = make_bench(budget=512, usable=100_000, max_num_seqs=512)
    decodes = [f"d{i}" for i in range(8)]
    for name in decodes:
        b.add(name, 4, 1000)
    b.step()
    first = []
    for i in range(200):
        b.add(f"p{i}", 600, 1)
        granted = b.step()
        assert all(granted[name] == 1 for name in decodes)
        first.append(granted.get("p0"))
    assert first[:2] == [504, 96]


class TestB42Chunks:
    @staticmethod
    def capped(make_bench: Any, threshold: int, **options: Any) -> Any:
        limit = [{"use": "long-prefill", "threshold": threshold}]
        return make_bench(sections={"limit": limit}, **options)

    def test_several_partial_prefills_share_the_budget(self, make_bench: Any) -> None:
        b = self.capped(make_bench, 64, budget=256)
        for name in "XYZ":
            b.add(name, 300, 2)
        assert b.step() == {"X": 64, "Y": 64, "Z": 64}
        chunks: dict[str, int] = dict.fromkeys("XYZ", 64)
        while not b.outputs:
            for name, count in b.step().items():
                chunks[name] += count
        assert chunks == dict.fromkeys("XYZ", 300)
        assert {name: len(tokens) for name, tokens in b.outputs.items()} == dict.fromkeys("XYZ", 1)

    @pytest.mark.parametrize(("threshold", "message"), [(0, ">= 1"), (9000, "8192")])
    def test_bad_caps_on_partial_prefills_are_refused(
        self, make_bench: Any, threshold: int, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=rf"limit\[0\]\.threshold: .*{message}"):
            self.capped(make_bench, threshold)

    def test_partial_prefills_take_the_leftovers_of_decodes(self, make_bench: Any) -> None:
        b = make_bench(budget=18, max_num_seqs=8)
        b.add("a", 1, 50)
        b.add("b", 1, 50)
        b.step()
        b.add("P", 33, 2)
        assert [step["P"] for step in b.steps(4)] == [16, 16, 1, 1]
        assert len(b.outputs["P"]) == 2

    def test_a_lone_request_may_fill_the_step(self, make_bench: Any) -> None:
        b = self.capped(make_bench, 64, budget=256)
        b.add("P", 300, 2)
        assert [step["P"] for step in b.steps(2)] == [256, 44]

    def test_caps_on_partial_prefills_adapt(self, make_bench: Any) -> None:
        """Never below budget / requests: 256 // 2 = 128 each."""
        limit = [{"use": "long-prefill", "threshold": 64, "adaptive": True}]
        b = make_bench(budget=256, sections={"limit": limit})
        b.add("X", 300, 2)
        b.add("Y", 300, 2)
        assert b.step() == {"X": 128, "Y": 128}


def test_cached_tokens_are_counted_once(make_bench: Any) -> None:
    """computed at first admission + hit = prompt, whatever preemption hits later."""
    b = make_bench(block_size=16, usable=13)
    shared = b.tokens(32)
    b.add("warm", [*shared, *b.tokens(8)], 1)
    b.drain()
    b.add("A", 31, 40)
    b.add("B", 30, 40)
    b.add("C", 30, 40)
    b.step()
    d = b.add("D", [*shared, *b.tokens(28)], 20)
    granted = b.step()
    assert (d.num_cached_tokens, granted["D"]) == (32, 28)
    while not d.num_preemptions:
        b.step()
    b.drain()
    assert d.num_cached_tokens == 32
    assert d.num_recomputed_tokens >= 0

    never_ran = b.add("never", 30, 4)
    b.scheduler.abort("never")
    assert never_ran.num_cached_tokens is None


class TestB47CostsDoNotGrowWithTheQueue:
    """Counted in looks at requests, not in time."""

    @staticmethod
    def looks(make_bench: Any, num_waiting: int, policy: str) -> int:
        """Python function calls of ten steps with 8 running and so many waiting."""
        import sys

        b = make_bench(max_num_seqs=8, policy=policy, usable=10_000)
        for i in range(num_waiting + 8):
            b.add(f"r{i}", [1, 2, 3], 1000)
        b.steps(2)
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        for _ in range(10):
            sys.setprofile(count)
            plan = b.scheduler.schedule()
            sys.setprofile(None)
            b.plan = plan
            b.update()
        return calls

    @pytest.mark.parametrize("policy", ["fcfs", "priority"])
    def test_a_step_does_not_see_the_queue(self, make_bench: Any, policy: str) -> None:
        many, few = (self.looks(make_bench, count, policy) for count in (2000, 20))
        assert many <= 1.5 * few

    def test_parked_requests_cost_nothing(self, make_bench: Any) -> None:
        looked_at: list[str] = []

        class Door(Gate):
            name = "door"

            def pre_enqueue(self, request: Any) -> Any:
                return Wait(request.request_id) if request.hints else ADMIT

            def pre_filter(self, request: Any, view: Any) -> Any:
                looked_at.append(request.request_id)
                return ADMIT

        b = make_bench(plugins=[make_plugin(gate=[Door])], sections={"gate": [{"use": "door"}]})
        for i in range(2000):
            b.add(f"parked{i}", 4, 4, hints={"park": True})
        b.add("free", 4, 4)
        b.steps(3)
        assert looked_at == ["free"]
        b.scheduler.signal("parked7")
        b.steps(2)
        assert looked_at == ["free", "parked7"]

    @pytest.mark.parametrize("policy", ["fcfs", "priority"])
    def test_abort_compares_few_keys(self, make_bench: Any, policy: str) -> None:
        """Aborting n of 2n at random costs O(n log n) comparisons in all."""

        def comparisons(count: int) -> int:
            made = 0

            class Counted(float):
                def __lt__(self, other: object) -> bool:
                    nonlocal made
                    made += 1
                    return float.__lt__(self, other)  # type: ignore[operator]

            b = make_bench(policy=policy, max_num_seqs=1)
            queue = b.scheduler.components.policy.queue
            queue._key = lambda request: Counted(int(request.request_id))
            names = [str(i) for i in range(count)]
            random.Random(0).shuffle(names)
            for name in names:
                b.add(name, [1], 1)
            made = 0
            for name in names[: count // 2]:
                b.scheduler.abort(name)
            queue.peek()
            return made

        small, large = comparisons(500), comparisons(5000)
        assert large <= 15 * max(small, 500)


class TestB60SettingsAreChecked:
    @pytest.mark.parametrize(
        ("section", "key", "value"),
        [
            ("scheduler", "max_num_seqs", 0),
            ("scheduler", "max_num_seqs", -1),
            ("scheduler", "max_num_batched_tokens", 0),
            ("scheduler", "max_num_scheduled_tokens", -1),
            ("scheduler", "pipeline_depth", 0),
            ("scheduler", "scan_window", 0),
            ("scheduler", "backfill", -1),
            ("kv", "block_size", 0),
            ("kv", "num_blocks", 1),
            ("model", "max_model_len", 1),
        ],
    )
    def test_settings_out_of_range_are_refused(self, section: str, key: str, value: int) -> None:
        with pytest.raises(ConfigError, match=rf"{section}\.{key}: expected a number >="):
            Scheduler.from_config({section: {key: value}})

    def test_settings_budget_below_seats(self) -> None:
        with pytest.raises(ConfigError, match=r"max_num_batched_tokens = 4 .* max_num_seqs"):
            Scheduler.from_config({"scheduler": {"max_num_batched_tokens": 4, "max_num_seqs": 8}})

    def test_settings_drafts_beyond_the_budget(self) -> None:
        with pytest.raises(ConfigError, match=r"num_lookahead_tokens = 3 .* max_num_seqs"):
            Scheduler.from_config(
                {
                    "scheduler": {
                        "max_num_batched_tokens": 16,
                        "max_num_seqs": 8,
                        "num_lookahead_tokens": 3,
                    }
                }
            )

    def test_settings_unknown_policy(self) -> None:
        with pytest.raises(ConfigError, match=r"scheduler\.policy: .*'fcsf'.*'fcfs'"):
            Scheduler.from_config({"scheduler": {"policy": "fcsf"}})

    def test_settings_smallest_settings_work(self, make_bench: Any) -> None:
        b = make_bench(block_size=1, usable=3, budget=1, max_num_seqs=1)
        b.add("r", 2, 2)
        b.drain()
        assert len(b.outputs["r"]) == 2


def test_sampling_params_cover_every_refusal(make_bench: Any) -> None:
    """Whatever is wrong with sampling parameters is refused with the option's name."""
    b = make_bench()
    bad = {
        "min_tokens": -1,
        "temperature": -0.1,
        "top_p": 0.0,
        "top_k": -1,
        "min_p": 1.5,
        "logprobs": -1,
        "seed": "x",
        "stop": ("",),
        "stop_token_ids": ("x",),
    }
    for name, value in bad.items():
        with pytest.raises(RequestRefusedError, match=name):
            b.add("r", 4, 4, sampling={name: value})
    with pytest.raises(RequestRefusedError, match="temperature must be a number from 0 to 1000"):
        b.add("r", 4, 4, sampling={"temperature": float("nan")})
    with pytest.raises(RequestRefusedError, match=r"min_tokens .9. exceeds max_tokens"):
        b.add("r", 4, 4, sampling={"min_tokens": 9})
    assert SamplingParams().problem() is None
