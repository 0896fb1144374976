"""The engine over a scripted executor: outputs, text, ends, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from batchwright import ExecutorError, RequestRefusedError, SamplingParams, Scheduler, VirtualClock
from batchwright.assembly import scheduler_from_config
from batchwright.messages import TokenLogprobs
from batchwright.protocols import Gate, ModelSettings
from batchwright.testing import ScriptedExecutor, make_plugin
from batchwright.testing.model import ScriptedModel
from batchwright.verdicts import ADMIT, Stop, Wait
from batchwright_engine import Engine


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
    executor = ScriptedExecutor.standalone(scheduler.sizes.num_blocks, scheduler.sizes.block_size)
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


def draft(engine: Engine) -> None:
    """Let an executor bring several tokens a step, each with its log-probability."""
    options = attrs.evolve(engine.executor.options, num_draft_tokens=4, draft_errors_one_in=997)
    engine.executor.options = options
    run = engine.executor.run

    def with_logprobs(plan: Any) -> Any:
        output = run(plan)
        rows = zip(output.req_ids, output.sampled_token_ids, strict=True)
        output.logprobs = {name: [TokenLogprobs(t, -1.0) for t in row] for name, row in rows}
        return output

    engine.executor.run = with_logprobs  # type: ignore[method-assign]


def test_nothing_runs_past_a_stop_string_inside_a_step_of_several_tokens() -> None:
    """Ids, log-probabilities and counts end with the token that completed it."""
    tokens = expected(Letters().encode("hello"), 12)
    text = Letters().decode(tokens)
    engine = make_engine(tokenizer=Letters(), scheduler={"num_lookahead_tokens": 4})
    draft(engine)
    stop = text[3:5]
    (output,) = engine.generate(["hello"], SamplingParams(max_tokens=12, stop=stop, logprobs=0))
    num_tokens = text.index(stop) + 2
    assert (output.text, output.detail) == (text[: text.index(stop)], f"stop_string:{stop}")
    assert list(output.token_ids) == tokens[:num_tokens]
    assert [entry.token_id for entry in output.logprobs or ()] == tokens[:num_tokens]
    assert output.metrics["num_output_tokens"] == num_tokens
    assert list(output.new_token_ids) == tokens[num_tokens - len(output.new_token_ids) : num_tokens]


def test_a_stop_string_that_is_a_special_token_stops_by_its_id() -> None:
    """Text never shows it: it ran to the cap."""
    engine = make_engine(tokenizer=Letters())
    tokens = expected(Letters().encode("hello"), 5)
    engine.model = attrs.evolve(engine.model, special_tokens={"<|end|>": tokens[3]})
    (output,) = engine.generate(["hello"], SamplingParams(max_tokens=9, stop=["<|end|>", "\0"]))
    assert (output.token_ids, output.detail) == (tokens[:4], f"stop_token:{tokens[3]}")
    with pytest.raises(RequestRefusedError, match=r"give '<\|end\|>' alone, or stop_token_ids = "):
        engine.add("hello", SamplingParams(stop="x<|end|>"))
    assert not engine.scheduler.requests


@pytest.mark.parametrize("token_id", [-1, 2**32, "x", 10**400])
def test_a_prompt_of_other_than_token_ids_is_refused(token_id: Any) -> None:
    with pytest.raises(RequestRefusedError, match="token ids must be integers from 0 to"):
        make_engine().add([1, token_id])


class Torn(Letters):
    """Cannot read one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    def decode(self, token_ids: Sequence[int]) -> str:
        if self.token in token_ids:
            raise LookupError("no such piece")
        return super().decode(token_ids)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_text_that_cannot_be_made_ends_its_request_alone(depth: int) -> None:
    bad, good = expected([1, 2, 3], 6), expected([4, 5, 6], 9)
    engine = make_engine(tokenizer=Torn(bad[2]), scheduler={"pipeline_depth": depth})
    params = SamplingParams(max_tokens=9, ignore_eos=True)
    first, second = engine.generate([[1, 2, 3], [4, 5, 6]], params)
    assert (first.finish_reason, first.token_ids) == ("error", bad[:3])
    assert first.detail == "its text cannot be made: LookupError: no such piece"
    assert first.text == Letters().decode(bad[:2])
    assert (second.finish_reason, second.token_ids) == ("length", good)
    assert second.text == Letters().decode(good)


class TestLeavingGenerate:
    """None of its requests goes on, whichever way it is left."""

    params = SamplingParams(max_tokens=30, ignore_eos=True)

    @pytest.fixture(params=[1, 2, 3])
    def engine(self, request: pytest.FixtureRequest) -> Engine:
        scheduler = {"pipeline_depth": request.param}
        return make_engine(tokenizer=Letters(), scheduler=scheduler, model={"max_model_len": 99})

    def is_idle(self, engine: Engine) -> None:
        assert not engine.scheduler.requests
        while engine.has_unfinished:
            assert engine.step() == []
        (output,) = engine.generate([[7, 8]], SamplingParams(max_tokens=2))
        assert output.token_ids == expected([7, 8], 2)
        assert engine.scheduler.kv_manager.num_free_blocks == 39

    def test_a_prompt_is_refused(self, engine: Engine) -> None:
        with pytest.raises(RequestRefusedError, match="exceeds max_model_len"):
            list(engine.generate([[1, 2], [1] * 200], self.params))
        self.is_idle(engine)

    def test_the_caller_stops_asking(self, engine: Engine) -> None:
        short = attrs.evolve(self.params, max_tokens=3)
        outputs = engine.generate([[1, 2], [3], [4]], [short, short, self.params])
        assert next(outputs).request_id == "request-0"
        outputs.close()  # type: ignore[attr-defined]
        self.is_idle(engine)

    def test_answers_that_another_call_computed_are_given(self, engine: Engine) -> None:
        short = attrs.evolve(self.params, max_tokens=2)
        outputs = engine.generate([[1, 2], [3]], [short, attrs.evolve(short, max_tokens=4)])
        assert next(outputs).request_id == "request-0"
        (other,) = engine.generate([[5, 6]], attrs.evolve(short, max_tokens=9))
        assert other.token_ids == expected([5, 6], 9)
        num_steps = engine.decisions.num_steps
        assert [output.token_ids for output in outputs] == [expected([3], 4)]
        assert engine.decisions.num_steps == num_steps
        self.is_idle(engine)

    def test_the_executor_gives_up(self, engine: Engine) -> None:
        fail_at(engine, *range(2, 60))
        with pytest.raises(ExecutorError, match="device lost"):
            list(engine.generate([[1, 2], [3]], self.params))
        assert not engine.scheduler.requests

    def test_sampling_parameters_are_too_few(self, engine: Engine) -> None:
        with pytest.raises(ValueError, match="got 2 prompts and 1 sampling parameters"):
            engine.generate([[1, 2], [3]], [self.params])
        self.is_idle(engine)


@pytest.mark.parametrize(
    "prompt", ["abc", [97, 98, 99], (97, 98, 99), [{"role": "user", "content": "abc"}]]
)
def test_a_single_prompt_is_not_taken_for_several(prompt: Any) -> None:
    outputs = list(make_engine(tokenizer=Letters()).generate(prompt, SamplingParams(max_tokens=2)))
    assert [output.token_ids for output in outputs] == [expected([97, 98, 99], 2)]


@pytest.mark.parametrize("prompt", [b"abc", {"role": "user"}, 7, None])
def test_what_is_no_prompt_is_a_type_error(prompt: Any) -> None:
    with pytest.raises(TypeError, match=r"generate\(\) takes prompts"):
        make_engine().generate(prompt)


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


def dislike(engine: Engine, seed: int) -> None:
    """Let an executor fail while it takes up requests with a seed."""
    add = engine.executor.add_request

    def add_request(request: Any) -> None:
        if request.sampling_params.seed == seed:
            raise OverflowError("too large")
        add(request)

    engine.executor.add_request = add_request  # type: ignore[method-assign]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_cannot_be_taken_up_ends_alone(depth: int) -> None:
    """Its id may be used again at once, and no restart was needed."""
    engine = make_engine(scheduler={"pipeline_depth": depth})
    dislike(engine, 13)
    for name, seed in (("good", 1), ("bad", 13)):
        engine.add([1, 2, 3], SamplingParams(max_tokens=9, seed=seed), request_id=name)
    outputs = [engine.step() for _ in range(depth + 1)]
    (bad,) = (o for row in outputs for o in row if o.request_id == "bad")
    assert (bad.finish_reason, bad.token_ids) == ("error", [])
    assert bad.detail == "executor 'scripted' could not take it up: OverflowError: too large"
    engine.add([4, 5], SamplingParams(max_tokens=3), request_id="bad")
    ends = {}
    while engine.has_unfinished:
        ends |= {o.request_id: o.token_ids for o in engine.step() if o.finished}
    assert ends == {"good": expected([1, 2, 3], 9), "bad": expected([4, 5], 3)}


def test_an_executor_that_keeps_failing_ends_the_run() -> None:
    engine = make_engine()
    fail_at(engine, *range(10))
    with pytest.raises(ExecutorError, match=r"failed 3 times in a row.*device lost"):
        list(engine.generate([[1, 2]]))


def test_parked_requests_are_reported_and_slept_for(caplog: pytest.LogCaptureFixture) -> None:
    class Parks(Gate):
        name = "parks"

        def pre_enqueue(self, request: Any) -> Any:
            return Wait("door", "waits for the door")

    engine = make_engine(plugins=[make_plugin(gate=[Parks])], gate=[{"use": "parks"}])
    engine.add([1, 2], SamplingParams(max_tokens=2))
    sleeps: list[float] = []
    engine.scheduler.bell.wait = lambda _, seconds: sleeps.append(seconds)  # type: ignore[method-assign]
    assert engine.step() == engine.step() == []
    assert sleeps == [1.0, 1.0]
    assert caplog.text.count("request-0 (gate 'parks': waits for the door") == 1
    engine.scheduler.signal("door")
    while engine.has_unfinished:
        (last,) = engine.step()
    assert last.finished


def test_an_alarm_is_slept_for() -> None:
    class Later(Gate):
        name = "later"

        def setup(self) -> None:
            self.ctx.call_at(5.0)
            self.is_open = False

        def on_timer(self, payload: Any) -> None:
            self.is_open = True

        def pre_filter(self, request: Any, view: Any) -> Any:
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


@pytest.mark.parametrize("prompt", [5.0, None, {1, 2}, {"role": "user"}], ids=str)
def test_a_prompt_that_is_no_sequence_is_refused_by_its_type(prompt: Any) -> None:
    engine = make_engine(tokenizer=Letters())
    with pytest.raises(RequestRefusedError, match=f"not a {type(prompt).__name__}$"):
        engine.add(prompt)
    assert not engine.scheduler.requests


class Row(list[int]):
    """A row of an array: it has no truth value."""

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def test_a_prompt_needs_no_truth_value() -> None:
    rows = [Row([1, 2]), Row([3, 4])]
    outputs = make_engine().generate(rows, SamplingParams(max_tokens=2))
    assert [output.token_ids for output in outputs] == [expected([1, 2], 2), expected([3, 4], 2)]
