"""A simulation decides what the engine decides, byte for byte, fast-forwarding or not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from batchwright import Request, SamplingParams, VirtualClock
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Arrival, ModelInfo, StepShape
from batchwright.testing import fakes
from batchwright.testing.executor import ScriptedExecutor
from batchwright_engine import Engine
from batchwright_lab.simulation.assembly import SimulatorAssembly

from .cases import ACTING, random_arrivals, random_config

EOS = 996
LOG = {"use": "decision-log", "path": "decisions.jsonl", "block_ids": True, "replay": False}


class Timed(ScriptedExecutor):
    """A scripted executor whose steps take as long as an estimator says."""

    estimator: Any = None
    clock: Any = None
    lengths: dict[str, int] = {}

    def execute(self, plan):
        output = super().execute(plan)
        if plan.num_scheduled_tokens:
            seconds = self.estimator.step_time(shape_of(plan))
            self.clock.advance(seconds)
        for request_id, row in zip(output.req_ids, output.sampled_token_ids, strict=True):
            # It ends where the trace says; its own tokens never end it.
            sequence = self._known(request_id)
            num_outputs = len(sequence.tokens) - sequence.num_prompt_tokens
            if row:
                at_end = num_outputs == self.lengths[request_id]
                row[-1] = EOS if at_end else row[-1] % EOS
                sequence.tokens[-1] = row[-1]
        return output


def shape_of(plan: Any) -> StepShape:
    starts = {new.req_id: new.num_computed_tokens for new in plan.scheduled_new_reqs}
    cached = plan.scheduled_cached_reqs
    starts |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return StepShape.of((n, starts[name]) for name, n in plan.num_scheduled_tokens.items())


def engine_log(config: dict[str, Any], arrivals: list[Arrival], folder: Path) -> bytes:
    """Serve the arrivals with the engine; what it decided."""
    folder.mkdir()
    parsed = Config.from_dict({**config, "observer": [LOG]}, base_path=folder)
    clock = VirtualClock()
    offered = PluginManager.discover(extra=[ACTING, fakes])
    assembly = SimulatorAssembly(parsed, plugins=offered, clock=clock)
    scheduler = assembly.scheduler()
    limits = scheduler.sizes
    executor = Timed.standalone(limits.num_blocks, limits.block_size, verify=False)
    executor.estimator = scheduler.components.estimator
    executor.clock = clock
    executor.lengths = {a.request_id: a.num_output_tokens for a in arrivals}
    info = ModelInfo(name="timed", max_model_len=1000, vocab_size=997, eos_token_ids=(EOS,))
    engine = Engine(scheduler, executor, info)
    left = list(arrivals)
    while left or engine.has_unfinished:
        while left and left[0].time <= clock.now():
            scheduler.add_request(request_of(left.pop(0)))
        if not engine.has_unfinished:
            clock.wait_until(left[0].time)
            continue
        plan, outputs = engine.advance()
        if plan.is_empty and not outputs.finished:
            moments = [a.time for a in left[:1]]
            alarm = scheduler.next_timer
            moments += [alarm] if alarm is not None else []
            clock.wait_until(min(moments, default=0.0))
    engine.close()
    return (folder / "decisions.jsonl").read_bytes()


def request_of(arrival: Arrival) -> Request:
    return Request(
        request_id=arrival.request_id,
        prompt_token_ids=arrival.prompt_token_ids,
        sampling_params=SamplingParams(max_tokens=arrival.max_tokens),
        eos_token_id=EOS,
        arrival_time=arrival.time,
        priority=arrival.priority,
        client=arrival.client,
        hints=arrival.hints,
    )


@pytest.mark.parametrize("seed", range(50))
def test_simulation_decides_what_the_engine_decides(
    seed: int, simulate: Any, tmp_path: Path
) -> None:
    """Preemption, hits, gates, marks, pipelines: the logs are equal, block ids included."""
    chance = random.Random(f"decisions/{seed}")
    config = random_config(chance)
    arrivals = list(random_arrivals(chance))
    expected = engine_log(config, arrivals, tmp_path / "engine")
    for fast_forward in (True, False):
        ran = simulate(
            arrivals,
            {**config, "observer": [LOG]},
            plugins=[ACTING, fakes],
            fast_forward=fast_forward,
        )
        assert ran.read("decisions.jsonl") == expected


def test_the_cases_have_everything_in_them(simulate: Any) -> None:
    """Preemption, hits, pauses and fast-forwards do happen in the configurations above."""
    seen = dict.fromkeys(("preempted", "hits", "eos", "length", "full"), 0)
    for seed in range(50):
        chance = random.Random(f"decisions/{seed}")
        config = random_config(chance)
        ran = simulate(list(random_arrivals(chance)), config, plugins=[ACTING, fakes])
        rows = [line.split(",") for line in ran.read("requests.csv").decode().splitlines()[1:]]
        seen["preempted"] += sum(int(row[11]) for row in rows)
        seen["hits"] += sum(int(row[9] or 0) for row in rows)
        seen["eos"] += sum(row[13] == "eos" for row in rows)
        seen["length"] += sum(row[13] == "max_tokens" for row in rows)
        seen["full"] += len(rows) == 40
    assert seen["full"] == 50
    assert min(seen.values()) >= 50
