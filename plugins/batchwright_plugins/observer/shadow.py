"""A second policy that only says what it would have done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from attrs import frozen

from batchwright.default_plugins import DEFAULT_POLICY
from batchwright.exceptions import OUTSIDE
from batchwright.option import option
from batchwright.protocols import Observer, Subcomponent
from batchwright.protocols.component import overrides
from batchwright_plugins.files import create_output, files_read
from batchwright_plugins.observer.agreement import Series, kendall_tau
from batchwright_plugins.observer.shadow_services import ShadowServices

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.protocols import SchedulingPolicy
    from batchwright.queues import Ticket
    from batchwright.request_view import RequestView
    from batchwright.step_record import StepRecord
    from batchwright_plugins.observer.agreement import Agreement

__all__ = ["Shadow"]

_IN_QUEUE: Final = ("", "preempted", "paused")
"""Beginnings of the reasons of requests that wait in the queue."""


@frozen
class Options:
    """Options of a shadow."""

    policy: str = option(DEFAULT_POLICY, "Policy that is asked; its options are in [policy.NAME].")
    every: int = option(
        8, "Interval at which orders of waiting requests are compared.", unit="steps", ge=1
    )
    depth: int = option(16, "Number of first waiting requests whose order is compared.", ge=2)
    path: str | None = option(
        None, "CSV file of agreement over time, relative to the TOML file.", default_text="none"
    )


class Shadow(Observer):
    """Ask a second policy at each step for its decisions. It has no effect.

    It gets the events of the same requests, keeps a queue, usage, timers and estimates of its
    own, and is asked with the same state:

    - ``choices``: requests that it would have looked at, as many as the run's policy did (those
      that were admitted, and the one at which the scan ended; those that a gate passed over are
      left out)
    - ``grants``: the tokens that it would have scheduled in a step without enough for all running
      requests
    - ``order``: Kendall's tau between both orders of the first ``depth`` waiting requests
    - ``yields``: steps in which it would have preempted or paused a request

    The run does not follow the shadow, and the results of its decisions are not simulated;
    ``batchwright replay`` does that. If the shadow fails, it is left out from there on, with a
    warning. A step costs O(changes log waiting), every ``every`` steps O(depth log waiting +
    depth^2), and O(running) if it keeps accounts or sets token timers. Simulations do not
    fast-forward.
    """

    name = "shadow"
    Options = Options
    subcomponents: ClassVar[Mapping[str, Subcomponent]] = {
        "policy": Subcomponent("policy", "policy"),
        "predictor": Subcomponent("predictor"),
    }

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._policy: SchedulingPolicy = ctx.components["policy"]
        self._predictor = ctx.components["predictor"]
        self._series = Series()
        self._failure = ""
        self._events: list[tuple[str, RequestView, Any]] = []
        self._aside: dict[str, tuple[RequestView, Ticket]] = {}

    def setup(self) -> None:
        """Set both up.

        Raises:
            ConfigError: The CSV file cannot be written.
        """
        if self.options.path is not None:
            self._path = self.ctx.folder / Path(self.options.path).expanduser()
            create_output(self._path, files_read(self.ctx.config), option=f"{self.ctx.path}.path")
        self._world = ShadowServices(self._policy.ctx.services, self._predictor)
        self._policy.ctx.bind(self._world, self._policy)
        for hosted in (self._predictor, self._policy):
            self._try(hosted, "setup")

    def on_add(self, request: RequestView) -> None:
        if self._failure:
            return
        policy = self._policy
        if overrides(policy, "account"):
            self._world.open_account(request, self._try(policy, "account", request))
        self._try(policy.queue, "add", request)
        self._tell("on_add", request)

    def on_admit(self, request: RequestView, hit: int, need: int) -> None:
        self._events.append(("on_admit", request, (hit, need)))

    def on_preempt(self, request: RequestView, cause: str, lost_tokens: int) -> None:
        self._events.append(("on_preempt", request, (cause, lost_tokens)))
        if cause == "executor":
            self._take_events()  # it waits before the next step already

    def on_finish(self, request: RequestView) -> None:
        self._take_events()
        if self._failure:
            return
        self._take_out(request)
        self._tell("on_finish", request)
        self._try(self._policy.queue, "forget", request)
        self._world.forget(request)

    def on_step(self, record: StepRecord) -> None:
        if self._failure:
            return
        for payload in self._world.due_alarms(record.view.now):
            self._try(self._policy, "on_timer", payload)
        part = self._series.at(record.plan.step_id, record.view.now)
        admitted = list(record.admitted)
        looked_at = [*admitted, *self._held_up(record)]
        self._put_aside(record, looked_at)
        self._compare_choice(part, admitted, looked_at)
        self._compare_grants(part, record, admitted)
        self._take_events()
        self._world.charge(record)
        for request, payload in self._world.due_marks():
            self._try(self._policy, "on_tokens", request, payload)
        self._compare_wishes(part, record)

    def close(self) -> None:
        for hosted in (self._policy, self._predictor):
            self._try(hosted, "close")
        if self.options.path is not None:
            self._series.write(self._path)

    def summary(self) -> dict[str, object]:
        """Agreement over all steps and over time; why the shadow was left out, if it was."""
        total = self._series.total()
        return {
            "policy": self.options.policy,
            "steps": total.num_steps,
            **total.ratios(),
            "yield_steps": total.num_yields,
            "failure": self._failure,
            "over_time": list(self._series.rows()),
        }

    # -- Comparing ---------------------------------------------------------------

    def _held_up(self, record: StepRecord) -> Iterator[RequestView]:
        """The request at which the scan ended, if it was at one."""
        request_id, _ = record.stopped_by
        request = None if request_id is None else record.request(request_id)
        if request is not None and request not in record.view.running:
            yield request

    def _compare_choice(
        self, part: Agreement, admitted: list[RequestView], looked_at: list[RequestView]
    ) -> None:
        if not looked_at:
            return
        own = self._own_choice(len(looked_at), {request.request_id for request in admitted})
        part.num_choices += 1
        part.num_same_choices += own.keys() == {request.request_id for request in looked_at}
        part.num_admitted += len(admitted)
        part.num_same_admitted += sum(request.request_id in own for request in admitted)

    def _own_choice(self, count: int, admitted: set[str]) -> dict[str, None]:
        """Requests that it would have looked at: it knows of each while those are admitted."""
        own: dict[str, None] = {}
        while len(own) < count:
            head = next(iter(self._try(self._policy.queue, "first", 1) or ()), None)
            if head is None or head.request_id not in admitted:
                break
            own[head.request_id] = None
            self._take_events(of=head)
        rest = self._try(self._policy.queue, "first", count - len(own)) or ()
        return own | dict.fromkeys(request.request_id for request in rest)

    def _compare_grants(
        self, part: Agreement, record: StepRecord, admitted: list[RequestView]
    ) -> None:
        """Compare the tokens of running requests in a step without enough for all of them."""
        grants = record.plan.num_scheduled_tokens
        total = sum(grants.values()) if record.visited else 0
        new = {request.request_id for request in admitted}
        running = [r for r in record.view.running if r.request_id not in new] if total else []
        left = total - sum(grants[request_id] for request_id in new)
        short = [
            r for r in running if grants.get(r.request_id, 0) < record.num_new_tokens(r.request_id)
        ]
        if total < record.budget or not short or self._failure:
            return
        part.num_contended += 1
        # Tokens ran out at the last one that was served; others got less because of limits.
        shorter = {request.request_id for request in short}
        last = next((name for name in reversed(grants) if name in shorter), None)
        own: dict[str, int] = {}
        for request in self._in_order(running):
            request_id = request.request_id
            granted, owed = grants.get(request_id, 0), record.num_new_tokens(request_id)
            wanted = granted if granted and request_id != last else owed
            own[request_id] = min(wanted, left)
            left -= own[request_id]
        part.num_same_grants += own == {r.request_id: grants.get(r.request_id, 0) for r in running}

    def _in_order(self, running: list[RequestView]) -> list[RequestView]:
        """Running requests as the shadow would have served them."""
        if not overrides(self._policy, "running_key"):
            return running
        keys = {r.request_id: self._try(self._policy, "running_key", r) for r in running}
        return running if self._failure else sorted(running, key=lambda r: keys[r.request_id])

    def _compare_wishes(self, part: Agreement, record: StepRecord) -> None:
        """Compare the next step: requests that it would preempt, and the order of others."""
        policy, view = self._policy, record.view
        if overrides(policy, "running_to_preempt") and view.num_waiting and not self._failure:
            part.num_yields += bool(self._try(policy, "running_to_preempt", view, as_list=True))
        if record.plan.step_id % self.options.every or self._failure:
            return
        depth = self.options.depth
        own = self._try(policy.queue, "first", depth) or []
        tau = kendall_tau(
            [request.request_id for request in view.next_waiting(depth)],
            [request.request_id for request in own],
        )
        if tau is not None:
            part.num_orders += 1
            part.sum_tau += tau

    def _put_aside(self, record: StepRecord, looked_at: list[RequestView]) -> None:
        """Keep those out of its queue that gates keep out of the run's."""
        for request in looked_at:
            self._put_back(request.request_id)
        seen = {request.request_id for request in looked_at}
        for request_id, reason in record.waiting_reasons.items():
            if reason.startswith(_IN_QUEUE[1:]) or not reason:
                self._put_back(request_id)
            elif request_id not in seen and request_id not in self._aside:
                held = record.request(request_id)
                if held is not None and held in self._policy.queue:
                    self._aside[request_id] = held, self._try(self._policy.queue, "remove", held)

    def _put_back(self, request_id: str) -> None:
        if request_id in self._aside:
            request, ticket = self._aside.pop(request_id)
            self._try(self._policy.queue, "restore", request, ticket)

    def _take_events(self, of: RequestView | None = None) -> None:
        """Let it know what happened in the step to a request; None: to all of them."""
        events, self._events = self._events, []
        for event, request, arguments in events:
            if of is not None and request is not of:
                self._events.append((event, request, arguments))
                continue
            if self._failure:
                return
            if event == "on_admit":
                self._take_out(request)
                self._world.credit(request, arguments[0])
            elif request not in self._policy.queue:
                self._try(self._policy, "requeue", request)
            self._tell(event, request, *arguments)

    def _take_out(self, request: RequestView) -> None:
        if self._aside.pop(request.request_id, None) is None and request in self._policy.queue:
            self._try(self._policy.queue, "remove", request)

    def _tell(self, event: str, request: RequestView, *arguments: Any) -> None:
        for hosted in (self._predictor, self._policy):
            if overrides(hosted, event):
                self._try(hosted, event, request, *arguments)

    def _try(self, owner: Any, method: str, *arguments: Any, as_list: bool = False) -> Any:
        """Call one of its methods; if that fails, it is left out from here on."""
        if self._failure:
            return None
        try:
            answer = getattr(owner, method)(*arguments)
            return list(answer) if as_list else answer
        except OUTSIDE:
            raise
        except BaseException as error:
            where = f"{self.options.policy}: {method}()"
            self._failure = f"{where} raised {type(error).__name__}: {error}"
            self.ctx.log.warning("%s; the shadow is left out from here on", self._failure)
            return None
