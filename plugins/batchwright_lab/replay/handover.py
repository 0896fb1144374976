"""One policy decides up to a step, another one from there on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright.exceptions import OUTSIDE
from batchwright.option import option
from batchwright.protocols import Component, Lifecycle, SchedulingPolicy, Subcomponent, Victim
from batchwright.protocols.component import overrides
from batchwright.queues import Ticket, WaitingQueue

if TYPE_CHECKING:
    from collections.abc import Hashable

    from batchwright.context import Context
    from batchwright.protocols.policy import Key
    from batchwright.request_view import RequestView
    from batchwright.step_view import Running, StepView
    from batchwright.verdicts import Preempt

__all__ = ["HANDOVER", "HandoverPolicy", "HandoverVictim"]

HANDOVER: Final = "handover"


@frozen
class Options:
    """Options of a handover."""

    first: str = option("", "Policy that decides first.")
    then: str = option("", "Policy that decides later.")
    step: int = option(0, "First step of the second policy.", ge=0)


class _Handover(Component, Lifecycle):
    """Two components of a kind in one; both get all events.

    What neither of them does has nothing to do here, too: decisions before the handover are
    those of the first one alone.

    Attributes:
        problem: First failure of one of them, with its name; empty if there is none.
    """

    name = HANDOVER
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        self.first, self.then = ctx.components["first"], ctx.components["then"]
        self.problem = ""
        super().__init__(options, ctx)
        self.idle_methods = tuple(
            name
            for name in (*_EVENTS, *_WISHES)
            if not any(overrides(hosted, name) for hosted in self.both)
        )

    @property
    def both(self) -> tuple[Any, Any]:
        """The first one, and the one that follows."""
        return self.first, self.then

    @property
    def chosen(self) -> Any:
        """The component that decides the step that is being planned."""
        is_first = self.ctx.view.step_id < self.options.step
        return self.first if is_first else self.then

    def setup(self) -> None:
        for hosted in self.both:
            hosted.setup()

    def close(self) -> None:
        for hosted in self.both:
            hosted.close()

    def on_add(self, request: RequestView) -> None:
        self._tell("on_add", request)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._tell("on_admit", request, hit, need)

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._tell("on_preempt", request, cause, lost_tokens)

    def on_finish(self, request: RequestView) -> None:
        self._tell("on_finish", request)

    def _tell(self, event: str, *what: Any) -> None:
        for hosted in self.both:
            with self.noting(hosted, event):
                getattr(hosted, event)(*what)

    @contextmanager
    def noting(self, hosted: Any, method: str) -> Iterator[None]:
        """Note the component that raises, and raise on."""
        try:
            yield
        except OUTSIDE:
            raise
        except BaseException as error:
            what = f"{hosted.ctx.label}: {method}() raised {type(error).__name__}: {error}"
            self.problem = self.problem or what
            raise


_EVENTS: Final = ("on_add", "on_admit", "on_preempt", "on_finish")
_WISHES: Final = ("account", "running_key", "running_to_preempt", "preempts")


class HandoverPolicy(_Handover, SchedulingPolicy):
    """Two policies, each with a queue of its own, in which the same requests wait."""

    subcomponents = {name: Subcomponent("policy", name) for name in ("first", "then")}

    def make_queue(self) -> WaitingQueue:
        return TwinQueue(self)

    def requeue(self, request: RequestView) -> None:
        self.first.requeue(request)
        self.then.requeue(request)

    def account(self, request: RequestView) -> Hashable:
        """The account of the second one, whose books are needed from its step on.

        Raises:
            ValueError: The first one has another; a request has only one.
        """
        found = [p.account(request) for p in self.both if overrides(p, "account")]
        if len(set(found)) > 1:
            self.problem = f"{self.first.name} and {self.then.name} keep different accounts"
            raise ValueError(self.problem)
        account: Hashable = found[0]
        return account

    def running_key(self, request: RequestView) -> Key:
        key: Key = self.chosen.running_key(request)
        return key

    def running_to_preempt(self, view: StepView) -> Iterable[Preempt]:
        yielded: Iterable[Preempt] = self.chosen.running_to_preempt(view)
        return yielded

    def preempts(self, waiting: RequestView, running: RequestView) -> bool:
        answer: bool = self.chosen.preempts(waiting, running)
        return answer


class HandoverVictim(_Handover, Victim):
    """Two victims."""

    subcomponents = {name: Subcomponent("victim", name) for name in ("first", "then")}

    def choose(self, running: Running, needy: RequestView, view: StepView) -> RequestView:
        chosen: RequestView = self.chosen.choose(running, needy, view)
        return chosen


class TwinQueue(WaitingQueue):
    """The queues of two policies; the policy that decides the step is served from its own.

    Args:
        policies: Their handover.
    """

    def __init__(self, policies: HandoverPolicy) -> None:
        super().__init__()
        self._policies = policies
        self._tickets: dict[RequestView, tuple[Ticket, Ticket]] = {}

    @property
    def _queues(self) -> tuple[WaitingQueue, WaitingQueue]:
        return self._policies.first.queue, self._policies.then.queue

    @property
    def _chosen(self) -> WaitingQueue:
        queue: WaitingQueue = self._policies.chosen.queue
        return queue

    def __len__(self) -> int:
        return len(self._chosen)

    def __contains__(self, request: RequestView) -> bool:
        return all(request in queue for queue in self._queues)

    def __iter__(self) -> Iterator[RequestView]:
        return iter(self._chosen)

    def peek(self) -> RequestView | None:
        return self._chosen.peek()

    def first(self, count: int) -> list[RequestView]:
        return self._chosen.first(count)

    def insert(self, request: RequestView, order: int) -> None:
        self._put("insert", request, order)

    def add(self, request: RequestView) -> None:
        self._put("add", request)

    def _put(self, how: str, *what: Any) -> None:
        """Into both queues, or into none."""
        policies = self._policies
        with policies.noting(policies.first, f"queue.{how}"):
            getattr(policies.first.queue, how)(*what)
        try:
            with policies.noting(policies.then, f"queue.{how}"):
                getattr(policies.then.queue, how)(*what)
        except BaseException:
            policies.first.queue.remove(what[0])
            raise

    def remove(self, request: RequestView) -> Ticket:
        first, then = self._queues
        self._tickets[request] = tickets = first.remove(request), then.remove(request)
        return tickets[0]

    def restore(self, request: RequestView, ticket: Ticket) -> None:
        for queue, own in zip(self._queues, self._tickets.pop(request), strict=True):
            queue.restore(request, own)

    def forget(self, request: RequestView) -> None:
        self._tickets.pop(request, None)
        for queue in self._queues:
            queue.forget(request)
