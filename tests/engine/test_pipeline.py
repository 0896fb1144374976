"""Overlap: a plan is computed on another thread while the engine makes the next one.

No clock decides here: threads wait for each other's events. What would wait for ever, if
nothing overlapped, gives up after a minute and fails.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from batchwright import ExecutorError, SamplingParams, VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.messages import ModelOutput, SchedulerOutput
from batchwright.protocols import ModelSettings, Observer, WorkerSide
from batchwright.testing import ScriptedExecutor, make_plugin
from batchwright.testing.model import ScriptedModel
from batchwright_engine import Engine
from batchwright_engine.machine import measure_limits

PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]
EIGHT = SamplingParams(max_tokens=8, ignore_eos=True)


def expected(prompt: list[int], count: int = 8) -> list[int]:
    """Return the answers of a model without an engine."""
    model = ScriptedModel()
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(model.next_token(model.words(tokens)))
    return tokens[len(prompt) :]


class Events(defaultdict[tuple[str, int], threading.Event]):
    """Events of steps, for threads to wait for."""

    def __init__(self) -> None:
        super().__init__(threading.Event)
        self._lock = threading.Lock()
        self.log: list[str] = []

    def __missing__(self, key: tuple[str, int]) -> threading.Event:
        with self._lock:
            return self.setdefault(key, threading.Event())

    def tell(self, what: str, step: int) -> None:
        self.log.append(f"{what} {step}")
        self[what, step].set()

    def await_(self, what: str, step: int) -> None:
        if not self[what, step].wait(60):
            raise AssertionError(f"{what} {step} never came: {self.log}")


def nothing(step: int) -> None:
    """Do nothing, as executors and observers do by default."""


class Background(ScriptedExecutor):
    """Computes on the engine's other thread, and tells about it."""

    runs_in_background = True
    events: Events
    before: Callable[[int], None]

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        self.events.tell("begin", plan.step_id)
        self.before(plan.step_id)
        self.threads.add(threading.get_ident())
        output = super().execute(plan)
        self.events.tell("end", plan.step_id)
        return output

    def restart(self) -> None:
        self.events.log.append("restart")
        self.threads.add(threading.get_ident())
        super().restart()

    def close(self) -> None:
        self.events.log.append("close")


class Stage:
    """An engine over a background executor, and what happens on both threads.

    Args:
        depth: Plans in flight.
        before: What the executor does with a step before it computes it.
        on_step: What an observer does when a step was planned.
        on_outputs: What it does when one was committed.
    """

    def __init__(
        self,
        *,
        depth: int = 2,
        before: Callable[[int], None] = nothing,
        on_step: Callable[[int], None] = nothing,
        on_outputs: Callable[[int], None] = nothing,
        max_restarts: int = 0,
    ) -> None:
        self.events = events = Events()

        class Watching(Observer):
            name = "watching"

            def on_step(self, record: Any) -> None:
                events.tell("plan", record.plan.step_id)
                on_step(record.plan.step_id)

            def on_outputs(self, outputs: Any) -> None:
                events.tell("update", outputs.step_id)
                on_outputs(outputs.step_id)

        self.clock = VirtualClock()
        scheduler = scheduler_from_config(
            {
                "kv": {"num_blocks": 40, "block_size": 4},
                "scheduler": {"pipeline_depth": depth},
                "observer": [{"use": "watching"}],
            },
            clock=self.clock,
            plugins=[make_plugin(observer=[Watching])],
        )
        self.executor = Background.standalone(40, 4)
        self.executor.events, self.executor.before = events, before
        self.executor.threads = set()
        model = self.executor.load(ModelSettings(path="scripted"))
        self.engine = Engine(scheduler, self.executor, model, max_restarts=max_restarts)

    def answer(self) -> dict[str, list[int]]:
        """Step until everything has ended; tokens by request id."""
        answers = {}
        while self.engine.has_unfinished:
            for output in self.engine.step():
                if output.finished:
                    answers[output.request_id] = output.token_ids
        return answers

    def begun(self) -> list[int]:
        """Steps in the order in which they began to be computed."""
        return [int(line.split()[1]) for line in self.events.log if line.startswith("begin")]


def test_next_plan_and_last_update_are_made_while_a_step_is_computed() -> None:
    """Step n does not end before n+1 is planned and n-1 updated, nor begin after these."""

    def before(step: int) -> None:
        if 1 <= step < 7:
            stage.events.await_("plan", step + 1)
            stage.events.await_("update", step - 1)

    def on_step(step: int) -> None:
        if 2 <= step < 8:
            stage.events.await_("begin", step - 1)

    def on_outputs(step: int) -> None:
        if step < 7:
            stage.events.await_("begin", step + 1)

    stage = Stage(before=before, on_step=on_step, on_outputs=on_outputs)
    answers = dict(enumerate(o.token_ids for o in stage.engine.generate([PROMPTS[0]], EIGHT)))
    assert answers == {0: expected(PROMPTS[0])}


def test_outputs_are_given_out_while_the_next_step_is_computed() -> None:
    """``step`` returns the first tokens though the second step cannot end yet."""
    stage = Stage(before=lambda step: step and stage.events.await_("seen", 0))
    stage.engine.add(PROMPTS[0], EIGHT, request_id="a")
    (output,) = stage.engine.step()
    assert output.new_token_ids == expected(PROMPTS[0])[:1]
    assert "end 1" not in stage.events.log
    stage.events.tell("seen", 0)
    assert stage.answer() == {"a": expected(PROMPTS[0])}


@pytest.mark.parametrize("depth", [2, 3])
def test_steps_are_computed_in_order_on_one_thread(depth: int) -> None:
    """Each once, and never two at a time; halves of features are called there, too."""
    calls = []

    class Half(WorkerSide):
        def before_step(self, plan: SchedulerOutput, extra: Any) -> None:
            calls.append((threading.get_ident(), "before", plan.step_id))

        def after_step(self, plan: SchedulerOutput, output: ModelOutput) -> None:
            calls.append((threading.get_ident(), "after", plan.step_id))

    stage = Stage(depth=depth)
    stage.executor.install("half", Half())
    answers = [o.token_ids for o in stage.engine.generate(PROMPTS, EIGHT)]
    assert answers == [expected(prompt) for prompt in PROMPTS]
    (thread,) = stage.executor.threads
    assert thread != threading.get_ident()
    steps = range(len(calls) // 2)
    assert calls == [(thread, when, step) for step in steps for when in ("before", "after")]
    assert [e for e in stage.events.log if e[:3] in ("beg", "end")] == [
        f"{what} {step}" for step in steps for what in ("begin", "end")
    ]


@pytest.mark.parametrize(("depth", "background"), [(1, True), (2, False)])
def test_without_leave_or_depth_steps_are_computed_where_they_are_asked_for(
    depth: int, background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine makes no thread."""
    monkeypatch.setattr(Background, "runs_in_background", background)
    stage = Stage(depth=depth)
    assert len(list(stage.engine.generate(PROMPTS, EIGHT))) == 3
    assert stage.executor.threads == {threading.get_ident()}


def test_plans_behind_one_that_failed_are_not_computed() -> None:
    """Not before everything was put back and the executor restarted, which is not disturbed."""

    def before(step: int) -> None:
        if step == 3:
            stage.events.await_("plan", 4)  # it is on its way already
            raise RuntimeError("device lost")

    stage = Stage(before=before, max_restarts=1)
    answers = [o.token_ids for o in stage.engine.generate(PROMPTS, EIGHT)]
    assert answers == [expected(prompt) for prompt in PROMPTS]
    assert 4 not in stage.begun()
    log = [event for event in stage.events.log if event != "plan 4"]  # before or after it began
    assert log[log.index("begin 3") :][:3] == ["begin 3", "restart", "plan 5"]
    assert len(stage.executor.threads) == 1


def test_half_that_fails_is_named() -> None:
    """As a failure of the step, wherever it is computed."""

    class Half(WorkerSide):
        def after_step(self, plan: SchedulerOutput, output: ModelOutput) -> None:
            raise ValueError("no meter")

    stage = Stage()
    stage.executor.install("half", Half())
    with pytest.raises(ExecutorError, match=r"feature 'half': after_step\(\) raised ValueError"):
        list(stage.engine.generate(PROMPTS, EIGHT))


def test_executor_that_keeps_failing_ends_the_run() -> None:
    """And the plan behind is not computed; asked again, the engine says the same."""

    def before(step: int) -> None:
        raise RuntimeError("device lost")

    stage = Stage(before=before, max_restarts=2)
    stage.engine.add(PROMPTS[0], EIGHT)
    assert stage.engine.step() == []
    assert stage.engine.step() == []
    for times in (3, 4):
        with pytest.raises(ExecutorError, match=rf"failed {times} times in a row.*device lost"):
            stage.engine.step()
    assert len(stage.begun()) == 3
    stage.engine.close()


def test_abort_while_a_step_is_computed_voids_its_row_alone() -> None:
    """Its blocks return when the steps in flight are done; others get what they would."""
    stage = Stage(before=lambda step: step == 2 and stage.events.await_("aborted", 0))
    for name, prompt in zip("abc", PROMPTS, strict=True):
        stage.engine.add(prompt, EIGHT, request_id=name)
    stage.engine.step()
    stage.engine.step()
    stage.events.await_("begin", 2)
    stage.engine.abort("b")
    kv = stage.engine.scheduler.kv_manager
    assert kv.num_free_blocks < 39
    assert "end 2" not in stage.events.log
    stage.events.tell("aborted", 0)
    outputs = {output.request_id: output for output in stage.engine.step()}
    assert outputs["b"].finish_reason == "abort"
    assert outputs["b"].token_ids == expected(PROMPTS[1])[:2]
    assert stage.answer() == {"a": expected(PROMPTS[0]), "c": expected(PROMPTS[2])}
    assert kv.num_free_blocks == 39


def interrupts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Send SIGINT from step 2 on the other thread, once the engine waits for it.

    Python may notice it only when that step's answer wakes the engine: so the step ends.
    """
    waits = threading.Semaphore(0)
    take = stage.engine._pipeline.take

    def waiting() -> ModelOutput:
        waits.release()
        return take()

    def before(step: int) -> None:
        if step <= 2:
            waits.acquire()
        if step == 2:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(stage.engine._pipeline, "take", waiting)
    return before


needs_signals = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="signals to threads are POSIX's"
)


@needs_signals
def test_interrupted_waiting_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step continues meanwhile; the next step gets its answer."""
    stage = Stage()
    stage.executor.before = interrupts(stage, monkeypatch)
    stage.engine.add(PROMPTS[0], EIGHT, request_id="a")
    with pytest.raises(KeyboardInterrupt):
        stage.answer()
    assert stage.answer() == {"a": expected(PROMPTS[0])}
    assert stage.begun() == list(range(9))


@needs_signals
def test_close_waits_for_the_step_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor is closed after it, and its thread has ended."""
    stage = Stage()
    stage.executor.before = interrupts(stage, monkeypatch)
    stage.engine.add(PROMPTS[0], EIGHT)
    with pytest.raises(KeyboardInterrupt):
        stage.answer()
    stage.engine.close()
    log = stage.events.log
    assert log[-1] == "close"
    assert "end 2" in log
    assert sum(e.startswith("begin") for e in log) == sum(e.startswith("end") for e in log)
    assert not stage.executor.threads & {t.ident for t in threading.enumerate()}


def test_exit_of_an_executor_is_a_failure_of_its_step(caplog: pytest.LogCaptureFixture) -> None:
    """A plugin does not end the program: the executor is restarted, and answers."""
    failed: list[int] = []

    def before(step: int) -> None:
        if step == 1 and not failed:
            failed.append(step)
            sys.exit(0)

    stage = Stage(before=before, max_restarts=3)
    (answer,) = stage.engine.generate([PROMPTS[0]], EIGHT)
    assert len(answer.token_ids) == 8
    assert "failed in step 1 (ExecutorError: raised SystemExit: 0)" in caplog.text
    stage.engine.close()


def test_interrupt_of_a_step_is_no_failure_of_it() -> None:
    """It goes to the caller of each step, and nothing is computed behind it."""

    def before(step: int) -> None:
        if step == 1:
            raise KeyboardInterrupt("7")

    stage = Stage(before=before, max_restarts=3)
    stage.engine.add(PROMPTS[0], EIGHT)
    stage.engine.step()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt, match="7"):
            stage.engine.step()
    assert stage.begun() == [0, 1]
    assert "restart" not in stage.events.log
    stage.engine.close()


def test_limits_are_measured_where_steps_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the thread that has the executor's own threads."""
    stage = Stage()
    monkeypatch.setattr(
        Background,
        "measure_limits",
        lambda self, rows: {"thread": threading.get_ident() + rows},
        raising=False,
    )
    assert len(list(stage.engine.generate(PROMPTS, EIGHT))) == 3
    (thread,) = stage.executor.threads
    assert measure_limits(stage.engine, 8) == {"thread": thread + 8}


def test_hidden_scheduling_is_not_counted_twice() -> None:
    """Of 1 second a plan, 3 a step and 2 an update only what nothing hides is the engine's."""

    def before(step: int) -> None:
        if step < 8:
            stage.events.await_("plan", step + 1)
            stage.events.await_("passed", step + 1)
        stage.clock.advance(3)

    def on_step(step: int) -> None:
        if step:
            stage.events.await_("begin", step - 1)
        stage.clock.advance(1)
        stage.events.tell("passed", step)

    def on_outputs(step: int) -> None:
        if step == 8:
            stage.clock.advance(2)

    stage = Stage(before=before, on_step=on_step, on_outputs=on_outputs)
    assert len(list(stage.engine.generate([PROMPTS[0]], EIGHT))) == 1
    phases = stage.engine.phases
    # 8 tokens are 8 steps and one more row in flight, which no update is waited for in.
    assert stage.begun() == list(range(9))
    assert phases.num_steps == 8
    assert phases.seconds == {
        "scheduling": 1.0,
        "input preparation": 0.0,
        "forward": 9 * 3.0 + 8 * 1.0,
        "sampling": 0.0,
        "bookkeeping": 0.0,
    }
    assert stage.clock.now() == sum(phases.seconds.values()) + 2.0


def test_time_is_the_engines_where_nothing_is_computed() -> None:
    """An executor that is done early hides nothing; time between steps belongs to no phase."""

    def done() -> None:
        while stage.engine._pipeline._is_busy:  # it has still to look at the clock
            pass

    def on_step(step: int) -> None:
        if step:
            stage.events.await_("end", step - 1)
            done()
        stage.clock.advance(1)

    def before(step: int) -> None:
        stage.clock.advance(3)

    stage = Stage(before=before, on_step=on_step)
    stage.engine.add(PROMPTS[0], EIGHT)
    num_steps = 0
    while stage.engine.has_unfinished:
        stage.engine.step()
        done()
        stage.clock.advance(100)
        num_steps += 1
    seconds = stage.engine.phases.seconds
    assert stage.begun() == list(range(9))
    assert seconds["scheduling"] == 9.0
    assert seconds["forward"] == 27.0
    assert stage.clock.now() == sum(seconds.values()) + 100 * num_steps


def test_steps_that_were_answered_or_put_back_are_forgotten() -> None:
    """Else an engine that runs for days would hold every step's output."""

    def before(step: int) -> None:
        if step == 3:
            raise RuntimeError("device lost")

    stage = Stage(before=before, max_restarts=1)
    assert len(list(stage.engine.generate(PROMPTS, EIGHT))) == 3
    assert not stage.engine._pipeline._answers
    stage.engine.close()


def test_close_drops_the_steps_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers are not wanted; the pipeline is closed after the step at hand."""
    stage = Stage(depth=3, before=lambda step: step == 2 and stage.events.await_("dropped", 0))
    stage.engine.add(PROMPTS[0], EIGHT)
    stage.engine.step()
    stage.engine.step()
    log = stage.events.log
    monkeypatch.setattr(stage.engine.scheduler, "close", lambda: log.append("scheduler closed"))
    behind = stage.engine._pipeline._answers[3]
    behind.add_done_callback(lambda _: stage.events.tell("dropped", 0))
    stage.engine.close()
    assert 3 not in stage.begun()
    assert log[-3:] == ["end 2", "scheduler closed", "close"]
