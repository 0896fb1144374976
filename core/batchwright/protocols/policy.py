"""Scheduling policies: the order in which requests are served."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from batchwright.context import Context
from batchwright.protocols.component import Component, Lifecycle
from batchwright.queues import KeyedQueue, WaitingQueue
from batchwright.request_view import RequestView
from batchwright.verdicts import Preempt

if TYPE_CHECKING:
    from batchwright.step_view import StepView

Key = float | tuple[float, ...]


class SchedulingPolicy(Component, Lifecycle):
    """The order of waiting requests, and of running ones when they contend.

    The shortest policy defines ``key``. One whose order changes while requests wait
    calls ``self.queue.rekey(request)``, or returns another queue from ``make_queue``.

    Faults: a ``key`` that raises or does not return a number ends that request with
    FINISHED_ERROR. A queue whose ``peek`` raises falls back to arrival order for that step;
    three times in a row end the run with PluginError.
    """

    default_victim: ClassVar[str] = ""
    """The victim that ``victim = "auto"`` chooses under this policy; empty: the default."""

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.queue: WaitingQueue = self.make_queue()
        if not isinstance(self.queue, WaitingQueue):
            raise TypeError(f"make_queue() returned {self.queue!r}, expected a WaitingQueue")

    def make_queue(self) -> WaitingQueue:
        """Build the waiting queue; called once, at start.

        Returns:
            A KeyedQueue over ``key`` unless overridden; see ``batchwright.queues``.
        """
        return KeyedQueue(self.key)

    def key(self, request: RequestView) -> Key:
        """Sort key of a waiting request: smallest first, ties in insertion order.

        Called once when the request is queued and at each ``rekey``. It must not
        change in between. A number or a tuple of numbers; NaN is refused.

        Cost class: event.
        """
        return 0

    def requeue(self, request: RequestView) -> None:
        """Put a preempted request back; by default where its key and age place it.

        Cost class: event.
        """
        self.queue.requeue(request)

    def running_key(self, request: RequestView) -> Key:
        """Order in which running requests are served when they contend.

        Called only in a step in which a request may get fewer tokens than its new tokens. If it
        is not overridden, running requests are served in the order of admission.

        Cost class: shortage (once a running request in such a step).
        """
        return 0

    def running_to_preempt(self, view: StepView) -> Iterable[Preempt]:
        """Return the running requests that the policy preempts, with or without their blocks.

        Called at the beginning of a step if requests wait and something has changed since the
        last call: an arrival, an end, an admission, a preemption, a token timer, a clock timer,
        a signal. A preempted request returns to the queue and is not admitted again in the same
        step. ``scheduler.max_policy_preemptions`` bounds the policy preemptions of a request
        (``request.num_policy_preemptions``). Others are admitted in the same step if there is
        room; ``self.queue.first(n)`` are the next ones.

        Cost class: event.
        """
        return ()

    def preempts(self, waiting: RequestView, running: RequestView) -> bool:
        """Return True if the head of the queue may take the place of a running request.

        Called when the head finds no seat (and something has changed since it found none) or no
        blocks, with the running request that the victim plugin names of those that are not
        immune, and once more with the two exchanged: it must be True one way only. For a seat
        the running request is paused; for blocks it is preempted without them. It is preempted
        only if the waiting request is then certain to be admitted: the gates and limits are
        asked as if the other waited already. If its blocks are not enough, further requests are
        named, and the answer must be True for each. If all of them are not enough, none is
        preempted.

        Cost class: shortage.
        """
        return False

    def account(self, request: RequestView) -> Hashable:
        """Account that this request is charged to, e.g. ``request.client``.

        Called once a request, when it is added. If it is overridden the core keeps
        ``ctx.usage[account]`` for the policy to read.

        Cost class: event.
        """
        return None

    def on_tokens(self, request: RequestView, payload: Any) -> None:
        """Handle a token timer (``ctx.call_at_tokens``): that many tokens are computed.

        Cost class: event.
        """

    def on_timer(self, payload: Any) -> None:
        """Handle a clock timer (``ctx.call_at``): its time has come.

        Cost class: event.
        """
