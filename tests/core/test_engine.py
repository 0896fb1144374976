"""The engine over a scripted executor: outputs, text, ends, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from batchwright import (
    BatchwrightError,
    Engine,
    ExecutorError,
    RequestRefusedError,
    SamplingParams,
    Scheduler,
    VirtualClock,
)
from batchwright.assembly import scheduler_from_config
from batchwright.protocols import Gate, ModelSettings
from batchwright.testing import ScriptedExecutor, make_plugin
from batchwright.testing.model import ScriptedModel
from batchwright.verdicts import ADMIT, Park, Stop


class Letters:
    """One letter a token."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(m["content"] for m in messages))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(ord("a") + t % 26) for t in token_ids)


def make_engine(
    *, tokenizer: Any = None, plugins: Sequence[object] = (), **sections: Any
) -> Engine:
    sections.setdefault("kv", {"num_blocks": 40, "block_size": 4})
    scheduler = scheduler_from_config(sections, clock=VirtualClock(), plugins=plugins)
    executor = ScriptedExecutor.standalone(scheduler.limits.num_blocks, scheduler.limits.block_size)
    model = attrs.evolve(executor.load(ModelSettings(path="scripted")), tokenizer=tokenizer)
    return Engine(scheduler, executor, model, max_restarts=2)


def expected(prompt: Sequence[int], count: int) -> list[int]:
    model = ScriptedModel()
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(model.next_token(model.words(tokens)))
    return tokens[len(prompt) :]


PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_generate_yields_every_final_output(depth: int) -> None:
    engine = make_engine(scheduler={"pipeline_depth": depth})
    params = [SamplingParams(max_tokens=n, ignore_eos=True) for n in (9, 3, 5)]
    outputs = {o.request_id: o for o in engine.generate(PROMPTS, params)}
    for index, (prompt, sampling) in enumerate(zip(PROMPTS, params, strict=True)):
        output = outputs[f"request-{index}"]
        assert output.token_ids == expected(prompt, sampling.max_tokens or 0)
        assert (output.finish_reason, output.detail) == ("length", "max_tokens")
        assert output.metrics["num_output_tokens"] == sampling.max_tokens
        assert output.metrics["num_cached_tokens"] == 0
    assert list(outputs) == ["request-1", "request-2", "request-0"]
    assert not engine.has_unfinished


def test_step_streams_text_and_tokens() -> None:
    engine = make_engine(tokenizer=Letters())
    engine.add("hello", SamplingParams(max_tokens=4))
    pieces = []
    while engine.has_unfinished:
        pieces += engine.step()
    tokens = expected(Letters().encode("hello"), 4)
    final = pieces[-1]
    assert final.token_ids == tokens
    assert final.text == Letters().decode(tokens)
    assert final.finished


def test_stop_string_ends_and_cuts_the_text() -> None:
    tokens = expected(Letters().encode("hello"), 6)
    text = Letters().decode(tokens)
    engine = make_engine(tokenizer=Letters())
    (output,) = engine.generate(["hello"], SamplingParams(max_tokens=6, stop=text[2:4]))
    assert output.text == text[: text.index(text[2:4])]
    assert (output.finish_reason, output.detail) == ("stop", f"stop_string:{text[2:4]}")
    assert len(output.token_ids) < 6
    assert engine.scheduler.kv_manager.num_free_blocks == 39


def test_conversations_use_the_chat_template() -> None:
    engine = make_engine(tokenizer=Letters())
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}], "name": None}]
    (output,) = engine.generate([messages], SamplingParams(max_tokens=2))
    assert output.token_ids == expected(Letters().encode("hi"), 2)


def test_text_needs_a_tokenizer() -> None:
    engine = make_engine()
    with pytest.raises(RequestRefusedError, match="no tokenizer"):
        engine.add("text")
    with pytest.raises(RequestRefusedError, match="stop strings need"):
        engine.add([1, 2], SamplingParams(stop="x"))


def test_a_prompt_that_cannot_be_tokenized_is_refused_alone() -> None:
    class Fussy(Letters):
        def encode(self, text: str) -> list[int]:
            return list(text.encode())

    engine = make_engine(tokenizer=Fussy())
    for prompt in ("\ud800", [{"role": "user", "content": "\ud800"}]):
        with pytest.raises(RequestRefusedError, match="cannot be tokenized: UnicodeEncodeError"):
            engine.add(prompt)
    assert len(list(engine.generate(["fine"], SamplingParams(max_tokens=2)))) == 1


def test_abort_appears_as_an_output() -> None:
    engine = make_engine()
    request_id = engine.add([1, 2, 3], SamplingParams(max_tokens=50))
    engine.step()
    engine.abort(request_id)
    (output,) = engine.step()
    assert (output.request_id, output.finish_reason) == (request_id, "abort")
    assert not engine.has_unfinished


class Failing(ScriptedExecutor):
    """Fails at the steps it is told to."""

    fails_at: frozenset[int] = frozenset()

    def execute(self, plan: Any) -> Any:
        if plan.step_id in self.fails_at:
            raise RuntimeError("device lost")
        return super().execute(plan)


def fail_at(engine: Engine, *steps: int) -> None:
    engine.executor.__class__ = Failing
    engine.executor.fails_at = frozenset(steps)  # type: ignore[attr-defined]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("steps", [(0,), (3,), (2, 3), (1, 5, 9)])
def test_an_executor_that_fails_loses_no_request(depth: int, steps: tuple[int, ...]) -> None:
    engine = make_engine(scheduler={"pipeline_depth": depth})
    fail_at(engine, *steps)
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    outputs = {o.request_id: o for o in engine.generate(PROMPTS, params)}
    for index, prompt in enumerate(PROMPTS):
        assert outputs[f"request-{index}"].token_ids == expected(prompt, 8)


def test_an_executor_that_keeps_failing_ends_the_run() -> None:
    engine = make_engine()
    fail_at(engine, *range(10))
    with pytest.raises(ExecutorError, match=r"failed 3 times in a row.*device lost"):
        list(engine.generate([[1, 2]]))


def test_parked_requests_are_reported_instead_of_hanging() -> None:
    class Parks(Gate):
        name = "parks"

        def submit(self, request: Any) -> Any:
            return Park("door", "waits for the door")

    engine = make_engine(plugins=[make_plugin(gate=[Parks])], gate=[{"use": "parks"}])
    engine.add([1, 2], SamplingParams(max_tokens=2))
    with pytest.raises(BatchwrightError, match=r"request-0 .*waits for the door"):
        engine.step()
    engine.scheduler.notify("door")
    while engine.has_unfinished:
        (last,) = engine.step()
    assert last.finished


def test_an_alarm_is_slept_for() -> None:
    class Later(Gate):
        name = "later"

        def setup(self) -> None:
            self.ctx.alarm(5.0)
            self.is_open = False

        def on_alarm(self, payload: Any) -> None:
            self.is_open = True

        def candidate(self, request: Any, view: Any) -> Any:
            return ADMIT if self.is_open else Stop("later")

    engine = make_engine(plugins=[make_plugin(gate=[Later])], gate=[{"use": "later"}])
    (output,) = engine.generate([[1, 2]], SamplingParams(max_tokens=2))
    assert output.finished
    assert engine.scheduler.clock.now() == 5.0


def test_from_config_needs_a_model() -> None:
    from batchwright import ConfigError

    with pytest.raises(ConfigError, match=r"model\.path: a run needs a model"):
        Engine.from_config({})
    assert Scheduler.from_config().num_waiting == 0
