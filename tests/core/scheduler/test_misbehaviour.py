"""Components that do what no author means to do: each is named, nobody else suffers."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import ModelOutput, PluginError, Request, RequestRefusedError, StepError
from batchwright.assembly import scheduler_from_config
from batchwright.protocols import Gate, Observer, Resource, SchedulingPolicy, Victim
from batchwright.queues import KeyedQueue
from batchwright.request import CacheKey
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Defer, Reject, Stop, Wait
from batchwright_plugins.kv.paged import PagedKV


def bench_with(make_bench: Any, kind: str, cls: type, **options: Any) -> Any:
    """A bench that uses one class of mine; it replaces the default list of its kind."""
    name = cls.name  # type: ignore[attr-defined]
    if kind in ("gate", "control", "limit", "resource", "observer"):
        options["sections"] = {kind: [{"use": name}], **options.get("sections", {})}
    else:
        options[kind] = name
    return make_bench(plugins=[make_plugin(**{kind: [cls]})], **options)


class TestKeysThatAreNoStrings:
    """A request put aside under such a key would never come back, or never leave the scan."""

    @pytest.mark.parametrize("verdict", [Defer, Wait])
    @pytest.mark.parametrize("phase", ["pre_filter", "filter"])
    @pytest.mark.parametrize("key", [5, ("a",), ["a"]])
    def test_key_of_a_gate(self, make_bench: Any, verdict: Any, phase: str, key: Any) -> None:
        def judge(self: Any, request: Any, *rest: Any) -> Any:
            return verdict(key) if request.request_id == "bad" else ADMIT

        b = bench_with(make_bench, "gate", type("G", (Gate,), {"name": "g", phase: judge}))
        b.add("bad", 4, 2)
        b.add("good", 4, 2)
        assert b.step() == {"good": 4}
        assert f"must be a string, not {key!r}" in b.finished["bad"].detail

    def test_verdicts_say_what_they_expect(self) -> None:
        for make in (
            lambda: Wait(None),
            lambda: Defer(None, 3),
            lambda: Stop(1),
            lambda: Reject(None),
        ):  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="must be a string"):
                make()
        assert Defer().until is None

    @pytest.mark.parametrize("key", [5, ["a"]])
    def test_key_of_a_resource(self, make_bench: Any, key: Any) -> None:
        class Short(Resource):
            name = "short"

            def reserve(self, request: Any) -> bool:
                return bool(request.request_id != "bad")

            def unreserve(self, request: Any) -> None: ...

            def waits_for(self, request: Any) -> Any:
                return key

        b = bench_with(make_bench, "resource", Short)
        b.add("bad", 4, 2)
        b.add("good", 4, 2)
        assert b.step() == {"good": 4}
        assert f"waits_for() returned {key!r}, expected a key" in b.finished["bad"].detail


class TestAppointmentsThatNeverCome:
    """They are refused where they are made: later nobody knows whose they are."""

    @pytest.mark.parametrize("time", [None, "soon", [1]])
    def test_alarm_at_no_number(self, make_bench: Any, caplog: Any, time: Any) -> None:
        policy = self.policy(lambda self, request: self.ctx.call_at(time))
        self.is_a_fault_of(policy, make_bench, caplog, "TypeError")

    @pytest.mark.parametrize("time", [float("nan"), float("inf"), -float("inf")])
    def test_alarm_that_hides_others(self, make_bench: Any, caplog: Any, time: float) -> None:
        """NaN would keep all later alarms from ringing, inf the progress guard from acting."""
        policy = self.policy(lambda self, request: self.ctx.call_at(time))
        self.is_a_fault_of(policy, make_bench, caplog, "ValueError: a timer needs a finite")

    @pytest.mark.parametrize("position", [None, "3", 2.5])
    def test_mark_at_no_position(self, make_bench: Any, caplog: Any, position: Any) -> None:
        policy = self.policy(
            lambda self, request: self.ctx.call_at_tokens(request, num_computed_tokens=position)
        )
        self.is_a_fault_of(policy, make_bench, caplog, "TypeError")

    def test_signal_of_no_key(self, make_bench: Any, caplog: Any) -> None:
        policy = self.policy(lambda self, request: self.ctx.signal(["key"]))
        self.is_a_fault_of(policy, make_bench, caplog, "TypeError: signal() takes the key")
        with pytest.raises(TypeError, match="as a string, not None"):
            make_bench().scheduler.signal(None)

    @staticmethod
    def policy(on_add: Any) -> type:
        return type("P", (SchedulingPolicy,), {"name": "p", "on_add": on_add})

    @staticmethod
    def is_a_fault_of(policy: type, make_bench: Any, caplog: Any, what: str) -> None:
        b = bench_with(make_bench, "policy", policy)
        b.add("a", 4, 6)
        assert what in caplog.text
        b.drain()
        assert sum(b.scheduler.fault_counts.values()) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cache_salt", 5),
        ("cache_salt", "\ud800"),
        ("adapter", b"lora"),
        ("client", 7),
        ("group", ["conversation"]),
        ("priority", None),
        ("priority", "high"),
        ("priority", True),
        ("arrival_time", float("nan")),
        ("arrival_time", "now"),
        ("deadline", float("nan")),
        ("priority", 2**63),
        ("arrival_time", 10**400),
        ("deadline", float("inf")),
        ("deadline", -(10**400)),
        ("eos_token_id", (2**32,)),
        ("cache_keys", ("image",)),
        ("cache_keys", (CacheKey(-1, 1, b"image"),)),
        ("cache_keys", (CacheKey(0, 21, b"image"),)),
        ("cache_keys", (CacheKey(2**63, 2**64, b"image"),)),
        ("cache_keys", (CacheKey(5, 5, b"image"),)),
        ("cache_keys", (CacheKey(0, 1, "image"),)),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_nonsense_is_refused(make_bench: Any, field: str, value: Any) -> None:
    """One of them at the head of the queue made every schedule() raise, for everybody."""
    b = make_bench(block_size=4, policy="priority")
    with pytest.raises(RequestRefusedError, match=f"{field} must"):
        b.add("bad", 20, 2, **{field: value})
    b.add("good", 20, 2)
    b.drain()
    assert list(b.finished) == ["good"]


@pytest.mark.parametrize("name", [None, 7, ["a"]])
def test_an_id_that_is_no_string_is_refused(make_bench: Any, name: Any) -> None:
    with pytest.raises(RequestRefusedError, match="request_id must be a string"):
        make_bench().add(name, 4, 2)


def test_a_request_of_another_scheduler_is_left_alone(make_bench: Any) -> None:
    """A refusal emptied its state, and the scheduler that it runs in fell over that."""
    first, second = make_bench(), make_bench()
    request = first.add("a", 4, 9)
    first.step()
    with pytest.raises(RequestRefusedError, match="was added before"):
        second.scheduler.add_request(request)
    first.drain()


class TestAnswersOfAnotherForm:
    """The driver is told, and nothing has happened: it may answer properly."""

    @pytest.mark.parametrize("steps", [0, 2])
    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (None, "expected a ModelOutput, got None"),
            (ModelOutput(["a", "b"], None), "sampled_token_ids is None"),  # type: ignore[arg-type]
            (ModelOutput(None, [[1], [2]]), "req_ids is None"),  # type: ignore[arg-type]
            (ModelOutput([["a"], ["b"]], [[1], [2]]), "unhashable"),  # type: ignore[list-item]
            (ModelOutput(["a", "b"], [[1], [2]], errors=["a"]), "errors is"),  # type: ignore[arg-type]
        ],
    )
    def test_answer(self, make_bench: Any, steps: int, answer: Any, message: str) -> None:
        b = make_bench()
        b.add("a", 4, 5)
        b.add("b", 4, 5)
        b.steps(steps)
        b.schedule()
        with pytest.raises(StepError, match=message):
            b.scheduler.update_from_output(b.plan, answer)
        b.update()
        b.drain()
        assert {name: len(tokens) for name, tokens in b.outputs.items()} == {"a": 5, "b": 5}

    @pytest.mark.parametrize("steps", [0, 2])
    @pytest.mark.parametrize("row", [7, "text", {7, 8}])
    def test_row(self, make_bench: Any, steps: int, row: Any) -> None:
        b = make_bench()
        b.add("a", 4, 5)
        b.add("b", 4, 5)
        b.steps(steps)
        b.schedule()
        b.update({"a": row})
        assert b.finished["a"].detail.startswith("the executor answered")
        b.drain()
        assert len(b.outputs["b"]) == 5

    @pytest.mark.parametrize("drafts", [None, 5, ["x"], [-1]])
    def test_drafts(self, make_bench: Any, drafts: Any) -> None:
        b = make_bench()
        b.add("a", 4, 5)
        b.add("b", 4, 5)
        b.schedule()
        answer = ModelOutput(["a", "b"], [[1], [2]], draft_token_ids={"a": drafts})
        outputs = b.scheduler.update_from_output(b.plan, answer)
        assert outputs.new_token_ids == [[1], [2]]
        assert "the executor answered the drafts" in outputs.finished["a"].detail

    def test_no_plan(self, make_bench: Any) -> None:
        with pytest.raises(StepError, match="got None, which is no plan, but none is in flight"):
            make_bench().scheduler.update_from_output(None, ModelOutput())


def test_the_end_of_one_may_end_others_of_its_step(make_bench: Any) -> None:
    """E.g. an observer that aborts the rest of a group when its first one is done."""

    class FirstWins(Observer):
        name = "first-wins"

        def on_finish(self, request: Any) -> None:
            request.hints["scheduler"].abort(["a", "b", "c"])

    b = bench_with(make_bench, "observer", FirstWins)
    for name in "abc":
        b.add(name, 4, 4, hints={"scheduler": b.scheduler})
    b.drain()
    reasons = {name: finish.reason for name, finish in b.finished.items()}
    assert reasons == {"a": "length", "b": "abort", "c": "abort"}


class TestCallsFromWithin:
    """What is called in the middle of a step waits for its end, or is refused."""

    @pytest.mark.parametrize("phase", ["pre_filter", "filter"])
    def test_a_gate_aborts_its_candidate(self, make_bench: Any, phase: str) -> None:
        def judge(self: Any, request: Any, *rest: Any) -> Any:
            request.hints["scheduler"].abort(request.request_id)
            return ADMIT

        b = bench_with(make_bench, "gate", type("G", (Gate,), {"name": "g", phase: judge}))
        b.add("a", 4, 4, hints={"scheduler": b.scheduler})
        assert b.schedule() == {"a": 4}
        assert b.scheduler.requests == {}
        b.update()
        assert b.finished["a"].reason == "abort"
        b.drain()

    def test_a_victim_aborts_everybody(self, make_bench: Any) -> None:
        class Radical(Victim):
            name = "radical"

            def choose(self, running: Any, needed_by: Any, view: Any) -> Any:
                needed_by.hints["scheduler"].abort(["a", "b"])
                return needed_by

        b = bench_with(make_bench, "victim", Radical, block_size=4, usable=4)
        for name in "ab":
            b.add(name, 8, 9, hints={"scheduler": b.scheduler})
        b.drain()
        assert {finish.reason for finish in b.finished.values()} == {"abort"}

    def test_an_observer_aborts_what_it_sees_planned(self, make_bench: Any) -> None:
        """It used to take the request out of a plan that was made, and half of it stayed."""

        class Killer(Observer):
            name = "killer"

            def on_step(self, step: Any) -> None:
                for request in schedulers[0].running:
                    schedulers[0].abort(request.request_id)

        schedulers: list[Any] = []
        b = bench_with(make_bench, "observer", Killer)
        schedulers.append(b.scheduler)
        b.add("a", 4, 4)
        assert b.schedule() == {"a": 4}
        assert b.plan.total_num_scheduled_tokens == 4
        b.update()
        assert b.finished["a"].reason == "abort"
        b.drain()

    @pytest.mark.parametrize("event", ["on_admit", "on_finish"])
    @pytest.mark.parametrize("call", ["schedule", "update_from_output", "recover"])
    def test_steps_do_not_nest(self, make_bench: Any, event: str, call: str) -> None:
        def reenter(self: Any, request: Any, *rest: Any) -> None:
            scheduler = request.hints["scheduler"]
            arguments = (b.plan, ModelOutput()) if call == "update_from_output" else ()
            try:
                getattr(scheduler, call)(*arguments)
            except StepError as error:
                refused.append(str(error))

        refused: list[str] = []
        b = bench_with(
            make_bench, "policy", type("P", (SchedulingPolicy,), {"name": "p", event: reenter})
        )
        b.add("a", 4, 2, hints={"scheduler": b.scheduler})
        b.drain()
        within = "update_from_output" if event == "on_finish" else "schedule"
        assert refused == [f"{call}() was called from within {within}()"]


class TestFaultsOfNoRequest:
    """Nobody can go on without these components: the run ends, and names them."""

    def test_setup(self, make_bench: Any) -> None:
        def setup(self: Any) -> None:
            raise OSError("no license")

        gate = type("G", (Gate,), {"name": "g", "setup": setup})
        with pytest.raises(PluginError, match=r"gate 'g'.*: setup\(\): raised OSError: no license"):
            bench_with(make_bench, "gate", gate)

    @pytest.mark.parametrize(
        "method", ["lookup", "num_needed", "allocate", "allocate_decodes", "detach"]
    )
    def test_kv_manager(self, make_bench: Any, method: str) -> None:
        def fail(self: Any, *rest: Any) -> None:
            raise ValueError("lost count")

        kv = type("Mine", (PagedKV,), {"name": "mine", method: fail})
        b = make_bench(plugins=[make_plugin(kv=[kv])], kv={"manager": "mine"}, block_size=2)
        b.add("a", 4, 4)
        with pytest.raises(PluginError, match=r"kv 'mine'.*: fail\(\): raised ValueError: lost"):
            b.drain()

    @pytest.mark.parametrize("method", ["remove", "forget"])
    def test_queue(self, make_bench: Any, method: str) -> None:
        def fail(self: Any, *rest: Any) -> int:
            raise ValueError("lost count")

        def make_queue(self: Any) -> Any:
            return type("Queue", (KeyedQueue,), {method: fail})(self.key)

        policy = type("P", (SchedulingPolicy,), {"name": "p", "make_queue": make_queue})
        b = bench_with(make_bench, "policy", policy)
        b.add("a", 4, 4)
        with pytest.raises(PluginError, match=r"policy 'p'.*: fail\(\): raised ValueError: lost"):
            b.drain()


class TestPoliciesThatLoseRequests:
    def test_requeue_that_queues_nothing(self, make_bench: Any) -> None:
        """The request used to wait for ever, its caller with it."""
        policy = type("P", (SchedulingPolicy,), {"name": "p", "requeue": lambda *_: None})
        b = bench_with(make_bench, "policy", policy, block_size=4, usable=4)
        b.add("a", 8, 8)
        b.add("b", 8, 8)
        b.drain(limit=40)
        assert "requeue() did not queue the request" in b.finished["b"].detail

    def test_peek_at_a_parked_request(self, make_bench: Any) -> None:
        """It is no candidate before its key comes; the fault is the policy's."""

        class Stubborn(KeyedQueue):
            def peek(self) -> Any:
                seen.append(super().peek())
                return seen[0]

        class Gatekeeper(Gate):
            name = "gatekeeper"

            def pre_filter(self, request: Any, view: Any) -> Any:
                return Wait("key") if request.request_id == "a" else ADMIT

        seen: list[Any] = []
        methods = {"name": "p", "make_queue": lambda self: Stubborn(self.key)}
        policy = type("P", (SchedulingPolicy,), methods)
        plugin = make_plugin(policy=[policy], gate=[Gatekeeper])
        gates = {"gate": [{"use": "gatekeeper"}]}
        b = make_bench(plugins=[plugin], policy="p", sections=gates)
        b.add("a", 4, 2)
        b.add("b", 4, 2)
        assert b.step() == {"b": 4}
        assert "is parked" not in b.scheduler.requests["a"].waiting_reason
        assert list(b.scheduler.fault_counts) == ["policy 'p' (MadePlugin-0): peek()"]

    def test_queue_that_is_none(self, make_bench: Any) -> None:
        policy = type("P", (SchedulingPolicy,), {"name": "p", "make_queue": lambda _: None})
        with pytest.raises(PluginError, match=r"make_queue\(\) returned None, expected"):
            bench_with(make_bench, "policy", policy)

    def test_keys_may_be_large_integers(self, make_bench: Any) -> None:
        policy = type(
            "P", (SchedulingPolicy,), {"name": "p", "key": lambda _, r: 10**400 - r.priority}
        )
        b = bench_with(make_bench, "policy", policy, max_num_seqs=1)
        for priority in range(3):
            b.add(str(priority), 4, 2, priority=priority)
        b.drain()
        assert list(b.finished) == ["2", "1", "0"]


def test_init_that_forgets_its_base(make_bench: Any) -> None:
    gate = type("G", (Gate,), {"name": "g", "__init__": lambda self, options, ctx: None})
    with pytest.raises(PluginError, match=r"gate 'g'.*G.__init__: .* does not call super"):
        bench_with(make_bench, "gate", gate)


@pytest.mark.parametrize("prompt", ["text", b"abcd", bytearray(b"abcd")])
def test_a_prompt_of_text_is_no_prompt_of_tokens(prompt: Any) -> None:
    with pytest.raises(ValueError, match="encode text first"):
        Request(request_id="r", prompt_token_ids=prompt)


class Stopped(BaseException):
    """What ends a program if no caller catches it, as SystemExit does."""


class TestExits:
    """A plugin that would end the program has a fault like any other."""

    @pytest.mark.parametrize("error", [SystemExit(0), SystemExit(), Stopped("no")], ids=repr)
    def test_exit_on_behalf_of_a_request_ends_that_request(
        self, make_bench: Any, error: BaseException
    ) -> None:
        def key(self: Any, request: Any) -> float:
            if request.request_id == "bad":
                raise error
            return 0.0

        policy = type("P", (SchedulingPolicy,), {"name": "p", "key": key})
        b = bench_with(make_bench, "policy", policy)
        b.add("bad", 4, 2)
        b.add("good", 4, 2)
        b.drain()
        said = f"raised {type(error).__name__}"
        assert said in b.finished["bad"].detail
        assert "good" in b.finished
        assert b.finished["good"].reason == "length"
        assert b.scheduler.num_component_faults == 1

    def test_exit_of_an_observer_disables_it(self, make_bench: Any, caplog: Any) -> None:
        def on_step(self: Any, record: Any) -> None:
            raise SystemExit(3)

        b = bench_with(
            make_bench, "observer", type("O", (Observer,), {"name": "o", "on_step": on_step})
        )
        b.add("a", 4, 3)
        b.drain()
        assert "on_step() raised SystemExit: 3 (test_misbehaviour.py:" in caplog.text
        assert b.scheduler.num_component_faults == 1

    @pytest.mark.parametrize("method", ["__init__", "setup", "key"])
    def test_interrupts_go_through(self, make_bench: Any, method: str) -> None:
        def interrupt(self: Any, *arguments: Any) -> None:
            raise KeyboardInterrupt

        policy = type("P", (SchedulingPolicy,), {"name": "p", method: interrupt})
        with pytest.raises(KeyboardInterrupt):
            bench_with(make_bench, "policy", policy).add("a", 4, 2)

    @pytest.mark.parametrize("method", ["__init__", "setup"])
    def test_exit_at_start_names_the_component(self, make_bench: Any, method: str) -> None:
        def leave(self: Any, *arguments: Any) -> None:
            raise SystemExit(0)

        policy = type("P", (SchedulingPolicy,), {"name": "p", method: leave})
        with pytest.raises(PluginError, match=r"policy 'p' .*SystemExit: 0 \(test_misbehaviour"):
            bench_with(make_bench, "policy", policy)

    def test_exit_of_what_keeps_the_blocks_ends_the_run(self, make_bench: Any) -> None:
        def allocate(self: Any, *arguments: Any, **keywords: Any) -> None:
            raise SystemExit(0)

        kv = type("K", (PagedKV,), {"name": "k", "allocate": allocate})
        b = make_bench(plugins=[make_plugin(kv=[kv])], kv={"manager": "k"})
        b.add("a", 4, 2)
        with pytest.raises(PluginError, match=r"allocate\(\): raised SystemExit: 0 \(test_mis"):
            b.step()


class TestPlaces:
    """A fault names the line of the plugin's own code that led to it."""

    @pytest.fixture
    def written(self, tmp_path: Any) -> Any:
        """A scheduler whose policy, in a file, has a faulty body of ``key``."""

        def write(body: str, method: str = "key(self, request)") -> Any:
            path = tmp_path / "my_policy.py"
            path.write_text(
                "from batchwright.plugin import SchedulingPolicy, hookimpl\n"
                "class Mine(SchedulingPolicy):\n"
                '    name = "mine"\n'
                f"    def {method}:\n        {body}\n"
                "@hookimpl\n"
                "def batchwright_register_policy():\n    return [Mine]\n"
            )
            config = {"scheduler": {"policy": "mine"}, "plugins": {"load": [str(path)]}}
            return scheduler_from_config(config)

        return write

    def fault(self, scheduler: Any) -> str:
        request = Request(request_id="a", prompt_token_ids=[1, 2])
        scheduler.add_request(request)
        plan = scheduler.schedule()
        outputs = scheduler.update_from_output(plan, ModelOutput([], []))
        return str(outputs.finished["a"].detail)

    @pytest.mark.parametrize(
        ("body", "what"),
        [
            ("return 1 / 0", "key() raised ZeroDivisionError: division by zero (my_policy.py:5)"),
            ("return sorted(None)", "object is not iterable (my_policy.py:5)"),
            ("self.ctx.call_at('soon')", "(my_policy.py:5)"),
        ],
    )
    def test_of_what_was_raised(self, written: Any, body: str, what: str) -> None:
        detail = self.fault(written(body))
        assert detail.endswith(what)
        assert "policy 'mine'" in detail

    def test_of_a_wrong_answer(self, written: Any, caplog: Any) -> None:
        scheduler = written("return 7", "running_to_preempt(self, view)")
        scheduler.add_request(Request(request_id="a", prompt_token_ids=[1, 2]))
        scheduler.schedule()
        assert "'int' object is not iterable (my_policy.py:4)" in caplog.text

    @pytest.mark.parametrize(("level", "shown"), [("DEBUG", True), ("INFO", False)])
    def test_with_a_traceback_where_they_are_debugged(
        self, written: Any, caplog: Any, level: str, shown: bool
    ) -> None:
        with caplog.at_level(level, "batchwright.faults"):
            self.fault(written("return 1 / 0"))
        assert shown == ("return 1 / 0" in caplog.text)
        told = [r.levelname for r in caplog.records if r.name == "batchwright.faults"]
        assert told == ["WARNING"] * shown  # so that it shows without a handler, too


class TestMethodsThatAreMoreThanMethods:
    """A fault names the method by which the contract knows it, and its component."""

    def test_static_method(self, make_bench: Any) -> None:
        class Static(Gate):
            name = "static"

            @staticmethod
            def pre_filter(request: Any, view: Any) -> Any:
                return 7

        b = bench_with(make_bench, "gate", Static)
        b.add("a", 4, 2)
        b.step()
        assert "gate 'static'" in b.finished["a"].detail
        assert "pre_filter() returned 7, expected a Verdict" in b.finished["a"].detail

    def test_decorated_method(self, make_bench: Any) -> None:
        def logged(method: Any) -> Any:
            def wrapper(self: Any, *args: Any) -> Any:
                return method(self, *args)

            return wrapper

        class Decorated(Gate):
            name = "decorated"

            @logged
            def filter(self, request: Any, need: Any, hit: Any, view: Any) -> Any:
                raise ValueError("no")

        b = bench_with(make_bench, "gate", Decorated)
        b.add("a", 4, 2)
        b.step()
        assert "filter() raised ValueError: no" in b.finished["a"].detail
