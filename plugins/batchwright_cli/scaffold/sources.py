"""A small working component of each kind, for ``batchwright new`` to begin with."""

from __future__ import annotations

from string import Template
from typing import Final

__all__ = ["SOURCES"]

_POLICY = Template('''\
"""The policy ``$name`` for Batchwright."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import RequestView, SchedulingPolicy, hookimpl, option

__all__ = ["$component"]


@frozen
class Options:
    """Options of the policy ``$name``."""

    aging: float = option(10.0, "Weight of a second of waiting.", unit="tokens", ge=0)


class $component(SchedulingPolicy):
    """Shortest prompt first, with aging, so that every request is served."""

    name = "$name"
    Options = Options

    def key(self, request: RequestView) -> float:
        return request.num_prompt_tokens + self.options.aging * request.arrival_time


@hookimpl
def batchwright_register_policy() -> list[type[SchedulingPolicy]]:
    """Offer the policy."""
    return [$component]
''')

_GATE = Template('''\
"""The gate ``$name`` for Batchwright."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import ADMIT, Defer, Gate, RequestView, StepView, Verdict, hookimpl, option

__all__ = ["$component"]


@frozen
class Options:
    """Options of the gate ``$name``."""

    tokens: int = option(1024, "Prompts over this are long.", unit="tokens", ge=1)
    requests: int = option(4, "Most long ones that run at a time.", unit="requests", ge=1)


class $component(Gate):
    """Bounds how many requests with long prompts run at a time; the others pass by."""

    name = "$name"
    Options = Options

    def setup(self) -> None:
        self._running: dict[str, None] = {}

    def pre_filter(self, request: RequestView, view: StepView) -> Verdict:
        is_long = request.num_prompt_tokens > self.options.tokens
        if not is_long or len(self._running) < self.options.requests:
            return ADMIT
        # It is looked at again when the key is signalled: until then it costs nothing.
        return Defer(until=self.ctx.path, reason=f"{len(self._running)} long prompts run")

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        if request.num_prompt_tokens > self.options.tokens:
            self._running[request.request_id] = None

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._leave(request)

    def on_finish(self, request: RequestView) -> None:
        self._leave(request)

    def _leave(self, request: RequestView) -> None:
        if request.request_id in self._running:
            del self._running[request.request_id]
            self.ctx.signal(self.ctx.path)


@hookimpl
def batchwright_register_gate() -> list[type[Gate]]:
    """Offer the gate."""
    return [$component]
''')

_LIMIT = Template('''\
"""The limit ``$name`` for Batchwright."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import Limit, RequestView, StepView, hookimpl, option

__all__ = ["$component"]


@frozen
class Options:
    """Options of the limit ``$name``."""

    tokens: int = option(256, "Most tokens a step while others run.", unit="tokens", ge=1)


class $component(Limit):
    """A limit that keeps a prompt from taking a whole step while others run."""

    name = "$name"
    Options = Options

    def max_tokens(self, request: RequestView, num_tokens: int, view: StepView) -> int:
        if view.num_running <= 1:
            return num_tokens
        return min(num_tokens, self.options.tokens)


@hookimpl
def batchwright_register_limit() -> list[type[Limit]]:
    """Offer the limit."""
    return [$component]
''')

_VICTIM = Template('''\
"""The victim ``$name`` for Batchwright."""

from __future__ import annotations

from batchwright.plugin import RequestView, Running, StepView, Victim, hookimpl

__all__ = ["$component"]


class $component(Victim):
    """The request with fewest computed tokens is preempted; ties fall to the last."""

    name = "$name"

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        return min(reversed(running), key=lambda request: request.num_computed_tokens)


@hookimpl
def batchwright_register_victim() -> list[type[Victim]]:
    """Offer the victim."""
    return [$component]
''')

_CONTROL = Template('''\
"""The control ``$name`` for Batchwright."""

from __future__ import annotations

from attrs import frozen

from batchwright.plugin import Caps, Control, StepView, hookimpl, option

__all__ = ["$component"]


@frozen
class Options:
    """Options of the control ``$name``."""

    share: float = option(0.5, "Share of the step for prompts while others run.", gt=0, le=1)


class $component(Control):
    """Leaves prompts a share of the step while others run, so that decodes stay short."""

    name = "$name"
    Options = Options

    def caps(self, view: StepView) -> Caps | None:
        if not view.num_running:
            return None
        share = int(self.options.share * self.ctx.sizes.max_num_batched_tokens)
        return Caps(num_prefill_tokens=max(1, share))


@hookimpl
def batchwright_register_control() -> list[type[Control]]:
    """Offer the control."""
    return [$component]
''')

_OBSERVER = Template('''\
"""The observer ``$name`` for Batchwright."""

from __future__ import annotations

from batchwright.plugin import Observer, RequestView, StepRecord, hookimpl

__all__ = ["$component"]


class $component(Observer):
    """Counts of steps, scheduled tokens, and ends of requests."""

    name = "$name"

    def setup(self) -> None:
        self._num_steps = 0
        self._num_tokens = 0
        self._ends: dict[str, int] = {}

    def on_step(self, record: StepRecord) -> None:
        self._num_steps += 1
        self._num_tokens += record.plan.total_num_scheduled_tokens

    def on_finish(self, request: RequestView) -> None:
        reason = request.finish.reason if request.finish is not None else ""
        self._ends[reason] = self._ends.get(reason, 0) + 1

    def summary(self) -> dict[str, object]:
        return {"steps": self._num_steps, "tokens": self._num_tokens, "ends": dict(self._ends)}


@hookimpl
def batchwright_register_observer() -> list[type[Observer]]:
    """Offer the observer."""
    return [$component]
''')

SOURCES: Final = {
    "control": _CONTROL,
    "gate": _GATE,
    "limit": _LIMIT,
    "observer": _OBSERVER,
    "policy": _POLICY,
    "victim": _VICTIM,
}
"""By kind, the module of a distribution; filled in by ``Scaffold``."""
