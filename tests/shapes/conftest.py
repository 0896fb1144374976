"""Small simulations, for what a component's source says that it does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from batchwright import VirtualClock
from batchwright.config import Config
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import Arrival, Observer, Workload
from batchwright.testing import make_plugin
from batchwright_lab.sections import SimulationSection
from batchwright_lab.simulation.arriving import Arriving
from batchwright_lab.simulation.assembly import SimulatorAssembly
from batchwright_lab.simulation.caps import Caps
from batchwright_lab.simulation.simulation import Simulation

STEP = {"base": 0.02, "per_token": 1e-4, "per_context_token": 1e-7, "per_attention": 0.0}
"""A step: 20 ms, 0.1 ms a token; 2048 tokens take 225 ms."""


class Given(Workload):
    """Arrivals that a test has made; remembers who ended."""

    name = "given"

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self.given = list(arrivals)
        self.ended: list[Any] = []

    def arrivals(self) -> Iterator[Arrival]:
        return iter(self.given)

    def on_finish(self, arrival: Arrival, request: Any) -> Iterable[Arrival]:
        self.ended.append(request)
        return ()

    @property
    def max_output_tokens(self) -> int:
        return max(arrival.num_output_tokens for arrival in self.given)


class Tokens(Observer):
    """Times of each request's tokens."""

    name = "tokens"

    def __init__(self, options: Any, ctx: Any) -> None:
        super().__init__(options, ctx)
        self.times: dict[str, list[float]] = {}

    def on_outputs(self, outputs: Any) -> None:
        now = self.ctx.clock.now()
        for request_id in outputs.req_ids:
            self.times.setdefault(request_id, []).append(now)


class Run:
    """Results of a simulation."""

    def __init__(self, simulation: Simulation, requests: list[Any], tokens: Tokens) -> None:
        self.scheduler = simulation.engine.scheduler
        self.requests = requests
        self.tokens = tokens
        self.end = self.scheduler.clock.now()

    def of(self, **fields: Any) -> list[Any]:
        """Requests with these fields."""
        return [r for r in self.requests if all(getattr(r, k) == v for k, v in fields.items())]

    def ttfts(self, **fields: Any) -> list[float]:
        return sorted(r.first_token_time - r.arrival_time for r in self.of(**fields))

    def e2es(self, **fields: Any) -> list[float]:
        return sorted(r.finish_time - r.arrival_time for r in self.of(**fields))

    def share_in_time(self, targets: Mapping[str, float]) -> float:
        """Share of requests whose first token came within their class's target."""
        in_time = [
            r.first_token_time - r.arrival_time <= targets[r.slo_class] for r in self.requests
        ]
        return sum(in_time) / len(in_time)

    def largest_gap(self, one: str, other: str, begin: float, end: float) -> float:
        """Largest difference of two clients' service in a time, looked at ten times."""
        times = [begin + (end - begin) * tenth / 10 for tenth in range(11)]
        return max(abs(self.service(one, t) - self.service(other, t)) for t in times)

    def gaps(self) -> list[float]:
        """Times between two tokens of a request."""
        return sorted(b - a for t in self.tokens.times.values() for a, b in pairwise(t))

    @property
    def num_preemptions(self) -> int:
        return sum(r.num_preemptions for r in self.requests)

    @property
    def recompute_tax(self) -> float:
        """Recomputed tokens of all computed ones."""
        again = sum(r.num_recomputed_tokens for r in self.requests)
        useful = sum(r.num_tokens - 1 - (r.num_cached_tokens or 0) for r in self.requests)
        return again / (again + useful)

    @property
    def hit_rate(self) -> float:
        """Share of prompt tokens found in the cache at first admission."""
        hits = sum(r.num_cached_tokens or 0 for r in self.requests)
        return hits / sum(r.num_prompt_tokens for r in self.requests)

    @property
    def throughput(self) -> float:
        """Requests a second."""
        return len(self.requests) / self.end

    def service(self, client: str, time: float) -> float:
        """Weighted tokens served to a client until then: computed prompts, outputs twice."""
        total = 0.0
        for request in self.of(client=client):
            times = self.tokens.times.get(request.request_id, ())
            outputs = sum(1 for t in times if t <= time)
            prompt = request.num_prompt_tokens - (request.num_cached_tokens or 0)
            total += 2 * outputs + (prompt if outputs else 0)
        return total


@pytest.fixture
def mixed() -> Callable[..., list[Arrival]]:
    """Arrivals of all sizes, lognormal, most of them small; prompts share nothing."""

    def make(count: int, rate: float, seed: int = 0) -> list[Arrival]:
        chance, time, arrivals = random.Random(seed), 0.0, []
        for number in range(count):
            time += chance.expovariate(rate)
            prompt = max(1, min(6000, int(chance.lognormvariate(5.7, 1.2))))
            output = max(1, min(600, int(chance.lognormvariate(4.0, 1.0))))
            tokens = [1000 + number, *[1] * (prompt - 1)]
            arrivals.append(Arrival(time=time, prompt_token_ids=tokens, num_output_tokens=output))
        return arrivals

    return make


@pytest.fixture
def simulate() -> Callable[..., Run]:
    """Run arrivals through a configuration on a virtual clock, with a linear step time."""

    def run(
        arrivals: Sequence[Arrival],
        *,
        kv: Mapping[str, Any] | None = None,
        sections: Mapping[str, Any] | None = None,
        until: float | None = None,
        **scheduler: Any,
    ) -> Run:
        config = Config.from_dict(
            {
                "scheduler": scheduler,
                "kv": {"num_blocks": 20_000, **(kv or {})},
                "estimator": {"linear": STEP},
                "observer": [{"use": "tokens"}],
                "simulation": {"until": until} if until else {},
                "model": {"max_model_len": 32_768},
                **(sections or {}),
            }
        )
        plugins = PluginManager.discover(extra=[make_plugin(observer=[Tokens])])
        engine = SimulatorAssembly(config, plugins=plugins, clock=VirtualClock()).simulator()
        workload = Given(arrivals)
        caps = Caps(config.section(SimulationSection).max_tokens, workload, random.Random(0))
        arriving = Arriving(workload.arrivals())
        simulation = Simulation(engine, workload, arriving, caps, config.section(SimulationSection))
        simulation.run()
        (tokens,) = engine.scheduler.components.observers
        return Run(simulation, workload.ended, tokens)

    return run
