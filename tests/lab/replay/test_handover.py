"""A handover from one policy to another in the middle of a run."""

from __future__ import annotations

from typing import Any

from batchwright.plugin import SchedulingPolicy

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols.component import overrides
from batchwright.testing import Driver, make_plugin, make_request
from batchwright_lab.replay.handover import HandoverPolicy, HandoverVictim


class Longest(SchedulingPolicy):
    """The longest prompt first; an account a client."""

    name = "longest"

    def key(self, request):
        return -request.num_prompt_tokens

    def account(self, request):
        return request.client


class ByName(Longest):
    """Keeps other accounts."""

    name = "by-name"

    def account(self, request):
        return request.request_id


PLUGIN = make_plugin(policy=[HandoverPolicy, Longest, ByName], victim=[HandoverVictim])


def make_scheduler(first: str, then: str, step: int, **scheduler: Any) -> Any:
    options = {"first": first, "then": then, "step": step}
    return scheduler_from_config(
        {
            "scheduler": {"policy": "handover", "max_num_seqs": 1, **scheduler},
            "policy": {"handover": options},
            "victim": {"handover": {"first": "lifo", "then": "lowest-priority", "step": step}},
        },
        clock=VirtualClock(),
        plugins=[PLUGIN],
    )


def order(scheduler: Any, *sizes: int) -> list[str]:
    """In which order requests that came together are admitted, one at a time."""
    driver = Driver(scheduler)
    driver.add(*(make_request(str(size), size, 1) for size in sizes))
    seen: list[str] = []
    while scheduler.requests:
        driver.turn()
        seen += driver.recorder.grants[-1]
    return seen


def test_the_second_policy_decides_from_its_step_on() -> None:
    assert order(make_scheduler("fcfs", "longest", 2), 5, 6, 7, 8, 9) == ["5", "6", "9", "8", "7"]
    assert order(make_scheduler("longest", "fcfs", 2), 5, 6, 7, 8, 9) == ["9", "8", "5", "6", "7"]


def test_a_handover_does_not_do_what_neither_does() -> None:
    scheduler = make_scheduler("fcfs", "fcfs", 2)
    policy = scheduler.components.policy
    for name in ("account", "running_key", "running_to_preempt", "preempts", "on_admit"):
        assert not overrides(policy, name)
    assert overrides(make_scheduler("fcfs", "longest", 2).components.policy, "account")


def test_accounts_are_those_of_who_keeps_some() -> None:
    scheduler = make_scheduler("fcfs", "longest", 100)
    driver = Driver(scheduler)
    driver.add(make_request("A", 20, 2, client="ada"))
    driver.turn()
    assert scheduler.components.policy.then.ctx.usage["ada"].prefill_tokens == 20


def test_policies_with_different_accounts_cannot_hand_over() -> None:
    """A request has one account; it ends, and says why."""
    scheduler = make_scheduler("longest", "by-name", 1)
    driver = Driver(scheduler)
    request = make_request("A", 20, 2, client="ada")
    driver.add(request)
    driver.turn()
    assert request.finish is not None
    assert "longest and by-name keep different accounts" in request.finish.detail


def test_victims_hand_over_too() -> None:
    """Blocks run out before the step and behind it: the last one yields, then the least urgent."""
    for step, expected in ((100, "B"), (0, "A")):
        scheduler = make_scheduler("fcfs", "fcfs", step, victim="handover", max_num_seqs=3)
        driver = Driver(scheduler)
        assert isinstance(scheduler.components.victim, HandoverVictim)
        running = [make_request("A", 4, 4, priority=5), make_request("B", 4, 4, priority=1)]
        driver.add(*running)
        driver.turn()
        view = scheduler.view
        chosen = scheduler.components.victim.choose(view.running, running[0].view, view)
        assert chosen.request_id == expected


def test_a_queue_of_two_keeps_both() -> None:
    scheduler = make_scheduler("fcfs", "longest", 100)
    requests = [make_request(str(size), size, 1) for size in (5, 9, 7)]
    Driver(scheduler).add(*requests)
    queue = scheduler.components.policy.queue
    views = [request.view for request in requests]
    assert len(queue) == 3
    assert list(queue) == views
    assert queue.first(2) == views[:2]
    ticket = queue.remove(views[0])
    assert views[0] not in queue
    assert queue.peek() is views[1]
    queue.restore(views[0], ticket)
    assert list(queue) == views
    assert list(scheduler.components.policy.then.queue) == [views[1], views[2], views[0]]
