"""Conformance of estimators and workloads: what simulations run on."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any, ClassVar

from batchwright.protocols import Arrival, StepShape
from batchwright.testing.conformance.base import Conformance

SHAPES = (
    StepShape(),
    StepShape.of([(1, 15)]),
    StepShape.of([(1, 100 * n) for n in range(200)]),
    StepShape.of([(512, 0)]),
    StepShape.of([(700, 4096), (300, 0), *((1, 900) for _ in range(17))]),
)
NUM_ARRIVALS = 500


class EstimatorConformance(Conformance):
    """Check an estimator: times are finite, repeat themselves, and grow with the work."""

    kind: ClassVar[str] = "estimator"

    def test_times_are_finite_and_pass(self) -> None:
        """Seconds, more than 0; the same shape takes the same time, in another copy too."""
        estimator, again = self.build(), self.build()
        for shape in SHAPES:
            seconds = estimator.step_time(shape)
            assert isinstance(seconds, float)
            assert math.isfinite(seconds)
            assert seconds > 0
            assert seconds == estimator.step_time(shape) == again.step_time(shape)

    def test_more_work_takes_no_less_time(self) -> None:
        """Many more tokens, or a much longer context."""
        estimator = self.build()
        for shape in SHAPES:
            seconds = estimator.step_time(shape)
            assert estimator.step_time(shape.with_prefill(1024)) >= seconds
            assert estimator.step_time(shape.with_decodes(64, 64 * 4000)) >= seconds

    def test_most_tokens_are_in_time(self) -> None:
        """``max_tokens`` answers what fits, and one more does not."""
        estimator = self.build()
        for shape in SHAPES:
            for context in (0, 1000):
                alone = estimator.step_time(shape)
                assert estimator.max_tokens(alone / 2, shape, context) == 0
                deadline = estimator.step_time(shape.with_prefill(333, context))
                most = estimator.max_tokens(deadline, shape, context)
                assert estimator.step_time(shape.with_prefill(max(1, most), context)) <= deadline
                assert estimator.step_time(shape.with_prefill(most + 1, context)) > deadline

    def test_decodes_in_a_row_take_the_same_times(self) -> None:
        """``decode_times`` are those of ``step_time``, bit for bit."""
        estimator = self.build()
        for count, context in ((1, 0), (7, 4001), (200, 250_000)):
            for step, seconds in enumerate(islice(estimator.decode_times(count, context), 40)):
                assert seconds == estimator.step_time(StepShape(count, context + step * count))


class WorkloadConformance(Conformance):
    """Check a workload: arrivals in order, that could run, the same at every reading."""

    kind: ClassVar[str] = "workload"

    def test_arrivals_are_in_order(self) -> None:
        """From time 0 on."""
        times = [arrival.time for arrival in self._arrivals()]
        assert times, "nothing arrives"
        assert times == sorted(times)
        assert times[0] >= 0

    def test_arrivals_can_be_served(self) -> None:
        """A prompt of token ids, an answer of at least a token, ids that are unique."""
        workload = self.build()
        arrivals = list(islice(workload.arrivals(), NUM_ARRIVALS))
        for arrival in arrivals:
            assert isinstance(arrival, Arrival)
            assert len(arrival.prompt_token_ids) >= 1
            assert all(0 <= token < 1 << 32 for token in arrival.prompt_token_ids)
            assert arrival.num_output_tokens >= 1
            assert arrival.max_tokens is None or arrival.max_tokens >= 1
        assert max(a.num_output_tokens for a in arrivals) <= workload.max_output_tokens
        named = [a.request_id for a in arrivals if a.request_id is not None]
        assert len(set(named)) == len(named)

    def test_same_seed_arrives_the_same(self) -> None:
        """At a second reading, and in another copy."""
        workload = self.build()
        first = list(islice(workload.arrivals(), NUM_ARRIVALS))
        assert first == list(islice(workload.arrivals(), NUM_ARRIVALS)) == self._arrivals()

    def test_rate_is_that_of_its_arrivals(self) -> None:
        """Roughly, if it has one."""
        workload = self.build()
        arrivals = list(islice(workload.arrivals(), 20 * NUM_ARRIVALS))
        span = arrivals[-1].time - arrivals[0].time
        if workload.rate is not None and span > 0 and len(arrivals) >= NUM_ARRIVALS:
            assert 0.5 < len(arrivals) / span / workload.rate < 2

    def _arrivals(self) -> list[Any]:
        return list(islice(self.build().arrivals(), NUM_ARRIVALS))
