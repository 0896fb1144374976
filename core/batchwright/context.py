"""The access of a component to what all components share."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from batchwright.clock import Clock

if TYPE_CHECKING:
    from batchwright.compat import Compat
    from batchwright.config import Config
    from batchwright.counts import Counts
    from batchwright.protocols.component import Component
    from batchwright.protocols.estimator import Estimator
    from batchwright.request_view import RequestView
    from batchwright.runtime_services import RuntimeServices
    from batchwright.step_view import StepView
    from batchwright.usage import UsageByAccount


@frozen(kw_only=True)
class Sizes:
    """The fixed sizes of a run, as configured and found.

    Args:
        max_num_seqs: Most requests that run at once.
        max_num_batched_tokens: Most tokens a step.
        max_model_len: Longest request, prompt and outputs (tokens).
        block_size: Tokens a KV block.
        num_blocks: KV blocks in all, reserved ones included.
        num_lookahead_tokens: Slots allocated beyond the scheduled tokens.
        max_policy_preemptions: Most preemptions of a request by the policy.
        enable_chunked_prefill: True if a prompt may be computed over several steps.
        enable_prefix_caching: True if requests share the blocks of equal prefixes.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    block_size: int
    num_blocks: int
    num_lookahead_tokens: int = 0
    max_policy_preemptions: int = 3
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True


@define(eq=False, slots=False, kw_only=True, repr=False)
class Context:
    """The access of one component to what all components share. One a component.

    Attributes:
        label: Its name in messages: kind, name, distribution.
        path: TOML path of its options, for messages, e.g. ``gate[1]``.
        slot: Index of the component's own data in a request.
        clock: The only source of time.
        random: A stream of random numbers of its own, the same in every run of the same seed.
        sizes: The fixed sizes of the run.
        folder: Start of relative paths in options: the folder of the TOML file.
        components: Its subcomponents, by kind (a KV manager's hasher and eviction, a simulated
            executor's estimator); ``output_oracle`` for a predictor that reads it.
        config: The whole configuration, for records of the run; None where there is none.
        log: A logger named after the component.
    """

    label: str
    path: str
    slot: int
    clock: Clock
    _seed: str
    sizes: Sizes
    folder: Path = Path()
    config: Config | None = None
    components: dict[str, Any] = field(init=False, factory=dict)
    _services: RuntimeServices | None = field(init=False, default=None)
    _component: Component | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self._seed)
        self.log = logging.getLogger(f"batchwright.{self.label.split(' (')[0]}")

    def bind(self, services: RuntimeServices, component: Component) -> None:
        """Connect to the engine that runs the component; done before ``setup`` is called."""
        self._services = services
        self._component = component

    @property
    def services(self) -> RuntimeServices:
        """The services of the engine that runs the component."""
        if self._services is None:
            raise RuntimeError(
                f"{self.label}: the scheduler is not there yet; use setup(), not __init__"
            )
        return self._services

    @property
    def view(self) -> StepView:
        """Counts of the scheduler, live."""
        return self.services.view

    @property
    def counts(self) -> Counts:
        """Running totals over all steps."""
        return self.services.counts

    @property
    def compat(self) -> Compat:
        """Differences of behaviour that reproduce another engine."""
        return self.services.compat

    @property
    def usage(self) -> UsageByAccount:
        """Service that each account received; see ``SchedulingPolicy.account``."""
        return self.services.usage

    def prefix_hit(self, request: RequestView) -> int:
        """Tokens of a waiting request that are cached now. Free of side effects.

        Cheap while nothing changed: two look-ups check that the known hit still ends at the
        same block.
        """
        return self.services.prefix_hit(request)

    def predict(self, *requests: RequestView, anew: bool = False) -> list[float]:
        """Return the expected numbers of output tokens of requests, by the predictor.

        An estimate is made once a request and kept, unless ``anew`` is true.
        """
        return self.services.predict(requests, anew=anew)

    @property
    def estimator(self) -> Estimator:
        """The estimator of step times: ``scheduler.estimator``.

        In a simulation it is not the one that decides the true times, unless
        ``simulation.oracle_estimator`` is true.
        """
        self.services.estimator_was_asked = True
        return self.services.estimator

    def stream(self, name: str) -> random.Random:
        """Return another stream of random numbers of this component, from its beginning."""
        return random.Random(f"{self._seed}/{name}")

    def group(self, name: str) -> dict[str, Any]:
        """This component's own dict for a group of requests (``request.group``).

        It outlives the group's requests by ``scheduler.group_time_to_live``.

        Raises:
            KeyError: The group has no live request, and its time is over.
        """
        return self.services.group_data(name, self.slot)

    def data(self, request: RequestView) -> Any:
        """Return the values that this component keeps with a request: its ``Data``.

        The instance is made at first use, and dropped with the request.

        Raises:
            TypeError: The component declares no ``Data``.
        """
        held = request._request.component_data
        found = held[self.slot]
        if found is None:
            found = held[self.slot] = self._make_data()
        return found

    def drop_data(self, request: RequestView) -> None:
        """Drop the values that this component keeps with a request; ``data`` makes new ones."""
        request._request.component_data[self.slot] = None

    def _make_data(self) -> Any:
        made = None if self._component is None else self._component.Data
        if made is None:
            raise TypeError(
                f"{self.label} declares no Data: give the component a class attribute "
                "Data, an attrs class whose fields have defaults"
            )
        return made()

    def call_at_tokens(
        self, request: RequestView, *, num_computed_tokens: int, payload: Any = None
    ) -> None:
        """Set a token timer: ``on_tokens(request, payload)`` is called once so many are computed.

        It is called at the beginning of the first step after the one that computes
        the token. It lapses when the request ends.
        """
        assert self._component is not None
        self.services.call_at_tokens(request, num_computed_tokens, self._component, payload)

    def call_at(self, time: float, payload: Any = None) -> None:
        """Set a clock timer: ``on_timer(payload)`` is called at the first step not before ``time``.

        Args:
            time: Seconds on ``ctx.clock``.
            payload: Handed back.
        """
        assert self._component is not None
        self.services.call_at(time, self._component, payload)

    def end(self, request: RequestView, reason: str) -> None:
        """End a live request with FINISHED_ERROR, as soon as this call or step is done.

        It may be called from every method, about every request:

        - In a step, a request that the plan does not hold yet ends before it is planned: from
          ``on_tokens``, ``on_timer``, ``caps``, ``running_to_preempt`` and ``open`` before the
          step decides about it, from ``running_key``, ``max_tokens``, ``pre_filter``,
          ``filter``, ``reserve``, ``choose``, ``preempts`` and ``on_preempt`` as soon as the
          decision at hand is made. ``on_admit`` takes its request out of the plan.
        - A request that the plan holds already ends when the plan is made: it is computed
          once more, for nothing.
        - Outside a step it ends when what the scheduler is called for is done.

        No effect if it has ended until then.

        Args:
            request: The request.
            reason: Reason for the caller; it should name the component.
        """
        self.services.end(request, reason)

    def signal(self, key: str) -> None:
        """Bring back, at the next step, the requests that are deferred until a key, or wait for it.

        From any thread; an engine that sleeps wakes up.

        Raises:
            TypeError: The key is no string.
        """
        self.services.signal(key)
