"""What components share: yielding, groups, predictions, features, hosts."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import ConfigError, PluginError, RequestRefusedError, RequestStatus
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import (
    Feature,
    FeatureComponent,
    Gate,
    KVManager,
    Predictor,
    SchedulingPolicy,
    WorkerSide,
)
from batchwright.protocols.component import overrides
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Preempt, Wait
from batchwright_engine.runtimes import check_runtime


@pytest.fixture
def policy_bench(make_bench: Any) -> Any:
    def make(policy: type, **options: Any) -> Any:
        plugin = make_plugin(policy=[policy])
        observer = {"observer": [{"use": "invariants"}]}
        sections = {**observer, **options.pop("sections", {})}
        return make_bench(plugins=[plugin], policy=policy.name, sections=sections, **options)

    return make


class Urgent(SchedulingPolicy):
    """Takes seats and blocks of less urgent ones."""

    name = "urgent"
    default_victim = "lowest-priority"

    def key(self, request: Any) -> Any:
        return request.priority

    def preempts(self, waiting: Any, running: Any) -> bool:
        return waiting.priority < running.priority


class TestDisplacing:
    def test_a_seat_is_taken_and_the_other_keeps_its_blocks(self, policy_bench: Any) -> None:
        b = policy_bench(Urgent, max_num_seqs=2, block_size=4)
        low = b.add("low", 8, 9, priority=5)
        b.add("mid", 8, 9, priority=3)
        b.steps(3)
        held = b.kv.block_ids(low.view)
        b.add("high", 8, 2, priority=1)
        assert b.step() == {"mid": 1, "high": 8}
        assert low.status is RequestStatus.PREEMPTED
        assert b.kv.block_ids(low.view) == held
        assert b.step() == {"mid": 1, "high": 1}
        # It goes on where it was: nothing is computed again.
        assert b.step() == {"mid": 1, "low": 1}
        assert (low.num_preemptions, low.num_recomputed_tokens) == (0, 0)
        b.drain()
        assert len(b.outputs["low"]) == 9

    def test_equals_do_not_displace_each_other(self, policy_bench: Any) -> None:
        b = policy_bench(Urgent, max_num_seqs=1)
        b.add("a", 8, 5, priority=1)
        b.step()
        b.add("b", 8, 5, priority=1)
        assert b.steps(4) == [{"a": 1}] * 4

    def test_who_says_both_ways_displaces_nobody(self, policy_bench: Any) -> None:
        class Both(Urgent):
            name = "both"

            def preempts(self, waiting: Any, running: Any) -> bool:
                return True

        b = policy_bench(Both, max_num_seqs=1)
        b.add("a", 8, 5)
        b.step()
        b.add("b", 8, 5)
        assert b.steps(4) == [{"a": 1}] * 4

    def test_blocks_are_taken(self, policy_bench: Any) -> None:
        b = policy_bench(Urgent, usable=6, block_size=4)
        low = b.add("low", 16, 9, priority=5)
        b.steps(2)
        b.add("high", 12, 2, priority=1)
        assert b.step() == {"high": 12}
        assert (low.status, low.num_preemptions) == (RequestStatus.PREEMPTED, 1)
        b.drain()
        assert len(b.outputs["low"]) == 9

    def test_a_request_is_immune_after_some_displacements(self, policy_bench: Any) -> None:
        b = policy_bench(Urgent, max_num_seqs=1, max_policy_preemptions=2)
        low = b.add("low", 4, 40, priority=9)
        b.step()
        for i in range(4):
            b.add(f"high{i}", 4, 1, priority=1)
            b.steps(2)
        assert low.num_policy_preemptions == 2
        b.drain()

    def test_paused_blocks_go_first(self, policy_bench: Any) -> None:
        """When a running request needs a block, the paused one loses its own."""
        b = policy_bench(Urgent, usable=8, block_size=4, max_num_seqs=1)
        low = b.add("low", 12, 9, priority=5)
        b.step()
        b.add("high", 8, 12, priority=1)
        b.step()
        assert len(b.kv.block_ids(low.view)) == 4  # one of them from the step it yielded in
        while low.num_preemptions == 0:
            assert set(b.step()) == {"high"}
        assert b.kv.block_ids(low.view) == []
        b.drain()
        assert {name: len(tokens) for name, tokens in b.outputs.items()} == {"low": 9, "high": 12}


class TestYieldRunning:
    def test_a_generator_will_do(self, policy_bench: Any) -> None:
        class Lazy(SchedulingPolicy):
            name = "lazy"

            def running_to_preempt(self, view: Any) -> Any:
                for request in view.running:
                    yield Preempt(request, keep_blocks=True)

        b = policy_bench(Lazy, max_num_seqs=1)
        a = b.add("a", 4, 9)
        b.step()
        b.add("b", 4, 9)
        b.step()
        assert a.view.num_policy_preemptions == 1

    def test_a_reclaimed_pause_is_no_first_admission(self, policy_bench: Any) -> None:
        """Counts of what has never run are right, whatever became of a paused request."""

        class Always(SchedulingPolicy):
            name = "always"

            def key(self, request: Any) -> Any:
                return request.priority

            def running_to_preempt(self, view: Any) -> Any:
                return [Preempt(r, keep_blocks=True) for r in view.running if r.priority]

        b = policy_bench(Always, usable=6, block_size=4, max_num_seqs=1)
        b.add("low", 12, 4, priority=1)
        b.step()
        b.add("high", 16, 4)
        assert b.scheduler.view.num_prompt_tokens_waiting == 16
        b.step()
        assert b.scheduler.view.num_prompt_tokens_waiting == 0
        b.drain()
        assert b.scheduler.view.num_prompt_tokens_waiting == 0

    def test_asked_only_when_something_changed(self, policy_bench: Any) -> None:
        asked: list[int] = []

        class Asks(SchedulingPolicy):
            name = "asks"

            def running_to_preempt(self, view: Any) -> Any:
                asked.append(view.step_id)
                return ()

        b = policy_bench(Asks, max_num_seqs=1)
        b.add("a", 4, 9)
        b.steps(3)
        b.add("b", 4, 9)
        b.steps(4)
        assert asked == [0, 3]

    @pytest.mark.parametrize("keep_blocks", [True, False])
    def test_who_yields_is_not_admitted_in_the_same_step(
        self, policy_bench: Any, keep_blocks: bool
    ) -> None:
        class First(SchedulingPolicy):
            name = "first"

            def key(self, request: Any) -> Any:
                return request.priority

            def running_to_preempt(self, view: Any) -> Any:
                old = [r for r in view.running if r.priority == 0 and r.num_output_tokens]
                return [Preempt(r, keep_blocks=keep_blocks) for r in old]

        b = policy_bench(First, max_num_seqs=2)
        a = b.add("a", 4, 9, priority=0)
        b.step()
        b.add("b", 4, 9, priority=1)
        assert b.step() == {"b": 4}
        assert a.num_policy_preemptions == 1
        assert b.step()["a"] == (1 if keep_blocks else 5)

    @pytest.mark.parametrize("answer", [None, 3, ["a"], [None]])
    def test_nonsense_is_a_fault(self, policy_bench: Any, answer: Any) -> None:
        class Nonsense(SchedulingPolicy):
            name = "nonsense"

            def running_to_preempt(self, view: Any) -> Any:
                return answer

        b = policy_bench(Nonsense, max_num_seqs=1)
        b.add("a", 4, 9)
        b.step()
        b.add("b", 4, 9)
        b.step()
        b.add("c", 4, 9)
        with pytest.raises(PluginError, match=r"policy 'nonsense'.*running_to_preempt\(\)"):
            b.step()


class TestGroups:
    def test_state_outlives_requests_for_a_time(self, policy_bench: Any) -> None:
        class Counts(SchedulingPolicy):
            name = "counts"

            def on_add(self, request: Any) -> None:
                state = self.ctx.group(request.group)
                state["seen"] = state.get("seen", 0) + 1

        b = policy_bench(Counts, group_time_to_live=10.0)
        ctx = b.scheduler.components.policy.ctx
        b.add("a", 4, 2, group="g")
        b.drain()
        b.scheduler.clock.advance(9)
        b.add("b", 4, 2, group="g")
        assert ctx.group("g")["seen"] == 2
        b.drain()
        b.scheduler.clock.advance(9)
        b.step()
        assert ctx.group("g")["seen"] == 2
        b.scheduler.clock.advance(1)
        b.step()
        with pytest.raises(KeyError):
            ctx.group("g")


class TestPredictions:
    def test_the_default_is_the_cap(self, make_bench: Any) -> None:
        b = make_bench()
        r = b.add("a", 4, 7)
        assert b.scheduler.components.policy.ctx.predict(r.view) == [7.0]

    def test_estimates_are_kept_until_wanted_anew(self, make_bench: Any) -> None:
        class Learns(Predictor):
            name = "learns"
            answer = 3.0

            def output_tokens(self, requests: Any) -> Any:
                return [self.answer] * len(requests)

        b = make_bench(plugins=[make_plugin(predictor=[Learns])], predictor="learns")
        one, two = b.add("a", 4, 7).view, b.add("b", 4, 7).view
        ctx = b.scheduler.components.policy.ctx
        assert ctx.predict(one) == [3.0]
        b.scheduler.components.predictor.answer = 5.0
        assert ctx.predict(one, two) == [3.0, 5.0]
        assert ctx.predict(one, two, anew=True) == [5.0, 5.0]

    @pytest.mark.parametrize("answer", [[], [float("nan")], [-1.0], None, ["x"]])
    def test_nonsense_falls_back_to_the_cap(self, make_bench: Any, answer: Any) -> None:
        class Bad(Predictor):
            name = "bad"

            def output_tokens(self, requests: Any) -> Any:
                return answer

        b = make_bench(plugins=[make_plugin(predictor=[Bad])], predictor="bad")
        r = b.add("a", 4, 7)
        assert b.scheduler.components.policy.ctx.predict(r.view) == [7.0]
        assert "predictor 'bad'" in next(iter(b.scheduler.fault_counts))


class Doors(Feature):
    """Parks requests that name a door; its executor half opens doors."""

    name = "doors"

    def components(self) -> Any:
        return [FeatureComponent(DoorGate)]

    def worker_side(self) -> WorkerSide:
        return Opener()

    def check(self, request: Any, data: Any) -> str | None:
        return None if isinstance(data, str) else "a door is named by a string"

    def build_metadata(self, plan: Any) -> Any:
        return {"step": plan.step_id}

    def update_from_worker(self, extra: Any) -> None:
        self.ctx.signal(extra)


class DoorGate(Gate):
    name = "door-gate"

    def pre_enqueue(self, request: Any) -> Any:
        door = request.features.get(self.ctx.components["feature"].name)
        return Wait(door) if door else ADMIT


class Opener(WorkerSide):
    def before_step(self, plan: Any, extra: Any) -> None:
        self.step = extra["step"]

    def after_step(self, plan: Any, output: Any) -> Any:
        return "front" if self.step == 2 else None


class TestFeatures:
    def test_both_halves_and_parts_work_together(self, make_bench: Any) -> None:
        from batchwright.testing import ScriptedExecutor

        b = make_bench(
            plugins=[make_plugin(feature=[Doors])],
            sections={"feature": [{"use": "doors"}]},
            kv={"num_blocks": 40},
        )
        executor = ScriptedExecutor.standalone(40, 16)
        (feature,) = b.scheduler.components.features
        executor.install(feature.name, feature.worker_side())
        b.add("a", 4, 9)
        b.add("b", 4, 2, features={"doors": "front"})
        granted = []
        while b.scheduler.has_unfinished:
            plan = b.scheduler.schedule()
            granted.append(sorted(plan.num_scheduled_tokens))
            b.scheduler.update_from_output(plan, executor.run(plan))
        assert granted[:5] == [["a"], ["a"], ["a"], ["a", "b"], ["a", "b"]]

    def test_what_is_said_to_nobody_is_refused(self, make_bench: Any) -> None:
        b = make_bench()
        with pytest.raises(RequestRefusedError, match="no feature 'doors' is configured"):
            b.add("a", 4, 2, features={"doors": "front"})

    def test_a_feature_checks_what_it_is_told(self, make_bench: Any) -> None:
        b = make_bench(
            plugins=[make_plugin(feature=[Doors])], sections={"feature": [{"use": "doors"}]}
        )
        with pytest.raises(RequestRefusedError, match="feature 'doors': a door is named by"):
            b.add("a", 4, 2, features={"doors": 3})


class TestIdleMethods:
    def test_a_method_that_options_switch_off_is_never_called(self, policy_bench: Any) -> None:
        """As if it were not overridden; the class can still do it, as hosts are told."""

        class Polite(Urgent):
            name = "polite"

            def __init__(self, options: Any, ctx: Any) -> None:
                super().__init__(options, ctx)
                self.idle_methods = ("preempts", "on_finish")

            def on_finish(self, request: Any) -> None:
                raise AssertionError("never called")

        b = policy_bench(Polite, max_num_seqs=1)
        b.add("low", 4, 3, priority=5)
        b.step()
        b.add("high", 4, 1, priority=0)
        assert b.steps(2) == [{"low": 1}] * 2
        b.drain()
        assert b.scheduler.fault_counts == {}
        assert overrides(Polite, "preempts")
        assert not overrides(b.scheduler.components.policy, "preempts")


class TestEndingByComponent:
    def test_a_request_that_an_alarm_ends_is_not_planned(self, policy_bench: Any) -> None:
        """Whether it waits, runs, or has ended already."""

        class Judge(SchedulingPolicy):
            name = "judge"

            def on_timer(self, payload: Any) -> None:
                for request in payload:
                    self.ctx.end(request, "policy 'judge': because")

        b = policy_bench(Judge, max_num_seqs=1)
        requests = [b.add(name, 4, length) for name, length in (("A", 1), ("B", 9), ("C", 9))]
        b.scheduler.components.policy.ctx.call_at(2.0, [request.view for request in requests])
        assert b.run(2) == [{"A": 4}, {"B": 4}]
        assert b.run(1) == [{}]
        assert {name: finish.reason for name, finish in b.finished.items()} == {
            "A": "length",
            "B": "error",
            "C": "error",
        }
        assert b.finished["C"].detail == "policy 'judge': because"


class TestOwnBlocks:
    def test_shared_blocks_are_nobodys_own(self, make_bench: Any) -> None:
        b = make_bench(block_size=4)
        shared = b.tokens(8)
        b.add("A", [*shared, 1], 9)
        b.step()
        view = b.scheduler.view
        (first,) = view.running
        assert view.num_own_blocks(first) == 3
        b.add("B", [*shared, 2, 3, 4, 5], 9)
        b.step()
        assert [view.num_own_blocks(request) for request in view.running] == [1, 1]

    def test_without_prefix_caching_all_are_its_own(self, make_bench: Any) -> None:
        b = make_bench(block_size=4, kv={"enable_prefix_caching": False})
        b.add("A", [1] * 9, 9)
        b.add("B", [1] * 9, 9)
        b.step()
        view = b.scheduler.view
        assert [view.num_own_blocks(request) for request in view.running] == [3, 3]

    def test_a_manager_that_shares_nothing_need_not_say(self, make_bench: Any) -> None:
        b = make_bench(block_size=4)
        request = b.add("A", 9, 9)
        b.step()
        assert KVManager.num_own_blocks(b.kv, request.view) == 3


class TestFirstTokenTime:
    @pytest.mark.parametrize("budget", [3, 4, 8])
    def test_it_is_known_whatever_is_left_for_the_last_chunk(
        self, make_bench: Any, budget: int
    ) -> None:
        """Nine tokens in chunks; the last chunk may be one token, as a decode is."""
        b = make_bench(budget=budget)
        request = b.add("A", 9, 3)
        num_chunks = -(-9 // budget)
        b.run(num_chunks + 2)
        assert request.first_token_time == num_chunks - 1
        assert request.finish_time == num_chunks + 1


class TestHosts:
    def test_never_and_degraded_are_refused_by_name(self) -> None:
        manager = PluginManager.discover(extra=[make_plugin(feature=[Doors])])
        doors = manager.find("feature", "doors")
        with pytest.raises(ConfigError, match=r"simulator honours Doors\.worker_side\(\)"):
            check_runtime("simulator", [doors], [])
        check_runtime("simulator", [doors], ["feature.worker_side"])
        check_runtime("engine", [doors], [])
        torch = manager.find("attention", "torch")
        with pytest.raises(ConfigError, match=r"simulator never calls .*\.forward\(\)"):
            check_runtime("simulator", [torch], [])
