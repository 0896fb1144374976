"""A closed loop: arrivals depend on the requests that were served."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lengths import Lengths
from batchwright_lab.workload.prefixes import Prefixes
from batchwright_lab.workload.prompts import OWN_TOKENS, pieces

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["Agents", "Clients"]


@frozen(kw_only=True)
class ClientOptions:
    """Options of clients."""

    num_clients: int = option(16, "Number of clients; each waits for its answer.", ge=1)
    num_requests: int = option(1000, "Number of requests of all clients.", unit="requests", ge=1)
    think_time: float = option(
        1.0, "Mean time from an answer to the next task; exponential.", unit="seconds", ge=0
    )
    prompt: Lengths = option(
        Factory(lambda: Lengths(mean=512.0)),
        "Length of a task's first prompt.",
        default_text="lognormal, mean 512",
    )
    output: Lengths = option(
        Factory(lambda: Lengths(mean=128.0)), "Output lengths.", default_text="lognormal, mean 128"
    )
    prefixes: Prefixes = option(
        Factory(Prefixes), "Tree of prefixes that prompts share.", default_text="none"
    )


@frozen(kw_only=True)
class AgentOptions(ClientOptions):
    """Options of agents."""

    calls: Lengths = option(
        Factory(lambda: Lengths("uniform", mean=6.0, most=100)),
        "Number of calls of a task.",
        default_text="uniform, mean 6",
    )
    tool_time: float = option(
        2.0, "Mean time from an answer to the next call; exponential.", unit="seconds", ge=0
    )
    tool_output: Lengths = option(
        Factory(lambda: Lengths(mean=256.0)),
        "Length that a call adds to the last prompt and its answer.",
        default_text="lognormal, mean 256",
    )


@define(kw_only=True)
class _Call(Arrival):
    """A request of a client.

    Args:
        calls_left: Calls that its task still makes when it is answered.
    """

    calls_left: int = 0


class Clients(Workload):
    """A number of clients, each of which sends a request, waits for the answer, thinks, repeats.

    Arrivals depend on the service: the system cannot be overloaded, and the workload has no
    rate. A client whose request is refused thinks, too, and sends another one.
    """

    name = "clients"
    Options = ClientOptions

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._begin()

    def _begin(self) -> None:
        options, stream = self.options, self.ctx.stream
        self._num_made = 0
        self._num_tasks = 0
        self._thinking = stream("arrivals")
        self._prompts = options.prompt.draw(stream("prompts"))
        self._outputs = options.output.draw(stream("outputs"))
        self._prefixes = options.prefixes.draw(stream("prefixes"))

    @property
    def max_output_tokens(self) -> int:
        return int(self.options.output.most)

    def arrivals(self) -> Iterator[Arrival]:
        self._begin()
        starts = sorted(
            _delay(self.options.think_time, self._thinking)
            for _ in range(min(self.options.num_clients, self.options.num_requests))
        )
        for number, time in enumerate(starts):
            yield self._task(time, f"client-{number}")

    def on_finish(self, arrival: Arrival, request: RequestView) -> Iterable[Arrival]:
        assert request.finish_time is not None
        return self._next_task(arrival, request.finish_time)

    def on_refuse(self, arrival: Arrival, time: float) -> Iterable[Arrival]:
        return self._next_task(arrival, time)

    def num_calls(self) -> int:
        """Return the number of calls of a task."""
        return 1

    def _next_task(self, arrival: Arrival, now: float) -> Iterable[Arrival]:
        """Return the next task of a client, for any end of the last one."""
        if self._num_made >= self.options.num_requests:
            return ()
        return [self._task(now + _delay(self.options.think_time, self._thinking), arrival.client)]

    def _task(self, time: float, client: str | None) -> _Call:
        """The first call of a task."""
        self._num_tasks += 1
        prompt = pieces([*next(self._prefixes), *self._own(next(self._prompts))])
        return self._call(time, client, prompt, f"task-{self._num_tasks}", self.num_calls() - 1)

    def _call(
        self, time: float, client: str | None, prompt: array[int], group: str | None, left: int
    ) -> _Call:
        self._num_made += 1
        return _Call(
            time=time,
            prompt_token_ids=prompt,
            num_output_tokens=next(self._outputs),
            client=client,
            group=group,
            calls_left=left,
        )

    def _own(self, length: int) -> list[tuple[int, int]]:
        """A piece that nothing shares."""
        return [(OWN_TOKENS + self._num_made, 1), (1, length - 1)]


class Agents(Clients):
    """Clients whose tasks take several calls, each with all earlier calls in its prompt.

    A call's prompt is the last call's prompt, its answer and the answer of a tool: prefixes
    grow, and are worth keeping while the tool works. A task is a ``group``; it is over when a
    call of it is refused.
    """

    name = "agents"
    Options = AgentOptions

    def _begin(self) -> None:
        super()._begin()
        self._calls = self.options.calls.draw(self.ctx.stream("calls"))
        self._tools = self.ctx.stream("tools")
        self._tool_outputs = self.options.tool_output.draw(self.ctx.stream("tool outputs"))

    def num_calls(self) -> int:
        return int(next(self._calls))

    def on_finish(self, arrival: Arrival, request: RequestView) -> Iterable[Arrival]:
        left = arrival.calls_left if isinstance(arrival, _Call) else 0
        if not left or self._num_made >= self.options.num_requests:
            return super().on_finish(arrival, request)
        assert request.finish_time is not None
        time = request.finish_time + _delay(self.options.tool_time, self._tools)
        prompt = array("I", request.prompt_token_ids)
        prompt.extend(array("I", request.output_token_ids))
        prompt.extend(pieces(self._own(next(self._tool_outputs))))
        return [self._call(time, arrival.client, prompt, arrival.group, left - 1)]


def _delay(mean: float, chance: random.Random) -> float:
    return chance.expovariate(1 / mean) if mean else 0.0
