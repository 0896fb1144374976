"""Predictors that read the truth, from an output oracle."""

from __future__ import annotations

from typing import Any

from batchwright import VirtualClock
from batchwright.assembly import Assembly
from batchwright.config import Config
from batchwright.scheduler import Scheduler
from batchwright.testing.conformance import PredictorConformance
from batchwright.testing.conformance.yielding import _ASKING
from batchwright_lab.predictor.oracle import Noisy, Oracle


class Knows:
    """Some length for every request."""

    def expect(self, request_id: str, num_output_tokens: int, token_id: int) -> None:
        raise AssertionError("a predictor says nothing of answers")

    forget = expect

    def output_tokens(self, request_id: str) -> int:
        return 1 + len(request_id) % 5


class Told(PredictorConformance):
    """Builds the scheduler with the truth at hand."""

    def scheduler(self, cls: type[Any] | None = None, **sections: Any) -> Scheduler:
        sections = {**sections, "scheduler": {**sections.get("scheduler", {}), "policy": _ASKING}}
        config = Config.from_dict(self.configuration(**sections))
        assembly = Assembly(config, plugins=self.plugins(cls), clock=VirtualClock())
        return assembly.scheduler(output_oracle=Knows())


class TestOracle(Told):
    component = Oracle


class TestNoisy(Told):
    component = Noisy
    options = {"sigma": 0.7}


del PredictorConformance, Told
