"""The simulated executor: time passes, answers end where they should."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright import ConfigError, PluginError, VirtualClock
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import StepShape
from batchwright.testing import make_plugin, make_request
from batchwright_engine import Engine
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_lab.simulation.fast_forward import FastForwarder
from batchwright_lab.simulation.simulated import EOS
from batchwright_plugins.kv.paged import PagedKV


def simulator(*plugins: Any, **sections: Any) -> Engine:
    config = Config.from_dict(sections)
    offered = PluginManager.discover(extra=plugins)
    return SimulatorAssembly(config, plugins=offered, clock=VirtualClock()).simulator()


def request(name: str, prompt: int, cap: int) -> Any:
    made = make_request(name, prompt, cap, ignore_eos=False)
    made.eos_token_id = (EOS,)
    made.stop_ids = frozenset({EOS})
    return made


def drain(engine: Engine) -> dict[str, Any]:
    ends = {}
    while engine.has_unfinished:
        _, outputs = engine.advance()
        ends |= outputs.finished
    return ends


def test_clock_goes_on_by_what_the_estimator_says() -> None:
    engine = simulator()
    estimator = engine.executor.ctx.components["estimator"]
    clock = engine.scheduler.clock
    engine.scheduler.add_request(request("a", 30, 2))
    engine.advance()
    first = estimator.step_time(StepShape.of([(30, 0)]))
    assert clock.now() == first
    engine.scheduler.add_request(request("b", 7, 1))
    engine.advance()
    assert clock.now() == first + estimator.step_time(StepShape.of([(1, 30), (7, 0)]))


def test_answer_ends_at_its_true_length_or_at_its_cap() -> None:
    engine = simulator()
    truth = engine.executor.output_oracle
    for name, length in (("short", 3), ("capped", 9)):
        truth.expect(name, length, 5)
        engine.scheduler.add_request(request(name, 4, 6))
    engine.scheduler.add_request(request("unknown", 4, 6))
    assert (truth.output_tokens("short"), truth.output_tokens("unknown")) == (3, None)
    requests = dict(engine.scheduler.requests)
    ends = drain(engine)
    assert {name: end.detail for name, end in ends.items()} == {
        "short": "eos",
        "capped": "max_tokens",
        "unknown": "max_tokens",
    }
    assert list(requests["short"].output_token_ids) == [5, 5, EOS]
    assert list(requests["capped"].output_token_ids) == [5] * 6
    engine.scheduler.add_request(request("next", 4, 1))
    engine.advance()  # only now is the executor told that they have ended
    assert truth.output_tokens("short") is None


def test_prompt_in_chunks_is_answered_once() -> None:
    engine = simulator(scheduler={"max_num_batched_tokens": 16, "max_num_seqs": 4})
    engine.scheduler.add_request(request("long", 40, 2))
    tokens = [engine.advance()[1].new_token_ids for _ in range(4)]
    assert [len(step) for step in tokens] == [0, 0, 1, 1]


def test_executor_is_none_of_a_real_engine() -> None:
    config = Config.from_dict({"model": {"path": "x"}, "executor": {"use": "simulated"}})
    with pytest.raises(ConfigError, match="it works in simulations alone"):
        SimulatorAssembly(config).engine()


def test_failing_manager_ends_a_fast_forward_with_its_name() -> None:
    class Breaks(PagedKV):
        """Fails when it should serve many steps."""

        name = "breaks"

        def fast_forward_decodes(self, growing, filling):
            raise RuntimeError("too far")

    engine = simulator(make_plugin(kv=[Breaks]), kv={"manager": "breaks"})
    engine.scheduler.add_request(request("a", 4, 60))
    engine.advance()
    with pytest.raises(PluginError, match=r"kv 'breaks'.*too far"):
        FastForwarder(engine.scheduler, engine.executor).run(1e9)
