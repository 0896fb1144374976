"""Every check is seen to fail: a fault is put in, and the checker names it."""

import contextlib
import logging

import pytest

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.exceptions import InvariantError
from batchwright.request import Finish, RequestStatus
from batchwright.scheduler.step_in_progress import StepInProgress
from batchwright.testing import Driver, ScriptedExecutor, check_idle, fakes, make_request


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("batchwright").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("batchwright").setLevel(logging.NOTSET)


def scheduler_of(*, observer=None, depth=1, num_blocks=14, **sections):
    scheduler = {"pipeline_depth": depth, **sections.pop("scheduler", {})}
    config = {"scheduler": scheduler, "kv": {"num_blocks": num_blocks, "block_size": 4}}
    config["kv"].update(sections.pop("kv", {}))
    config.update(sections)
    if observer is not None:
        config["observer"] = [{"use": "invariants", "on_violation": observer}]
    return scheduler_from_config(config, clock=VirtualClock(), plugins=[fakes])


def run_bare(scheduler, *, max_steps=60):
    """Run without any check of the driver's: whatever is seen, the observer sees."""
    limits = scheduler.sizes
    executor = ScriptedExecutor.standalone(limits.num_blocks, limits.block_size, verify=False)
    for _ in range(max_steps):
        if not scheduler.has_unfinished:
            break
        plan = scheduler.schedule()
        scheduler.update_from_output(plan, executor.run(plan))


# -- Faults in the books and in the plan: the observer and the driver see them ------


def leak_a_block(scheduler, monkeypatch):
    """E5: one block of an ended or preempted request is not returned."""
    kv = scheduler.kv_manager
    release = kv.free
    monkeypatch.setattr(kv, "free", lambda block_ids: release(block_ids[1:]))


def free_twice(scheduler, monkeypatch):
    """E5: the blocks of whoever leaves are returned twice."""
    kv = scheduler.kv_manager
    release = kv.free

    def release_twice(block_ids):
        release(block_ids)
        release(block_ids)

    monkeypatch.setattr(kv, "free", release_twice)


def miscount_references(scheduler, monkeypatch):
    """E5: a hit is adopted without counting it."""
    kv = scheduler.kv_manager
    take = kv._take

    def take_uncounted(count):
        block_ids = take(count)
        for block_id in block_ids:
            kv._references[block_id] += 1
        return block_ids

    monkeypatch.setattr(kv, "_take", take_uncounted)


def publish_under_a_wrong_hash(scheduler, monkeypatch):
    """E5: a block that is taken for something else keeps its hash."""
    index = scheduler.kv_manager._index

    def remove(block_ids):
        index.hash_all()
        for block_id in block_ids:
            index.hash_of[block_id] = None

    monkeypatch.setattr(index, "remove", remove)


def keep_blocks_of_the_preempted(scheduler, monkeypatch):
    """E5: a preempted request keeps its table, though its blocks are free."""
    kv = scheduler.kv_manager
    monkeypatch.setattr(kv, "detach", lambda request, cause: kv.block_ids(request))


def forget_to_send_a_block(scheduler, monkeypatch):
    """E5: a new block is not in the plan, so that executor and scheduler differ."""
    kv = scheduler.kv_manager
    allocate = kv.allocate

    def allocate_silently(request, *arguments):
        blocks = allocate(request, *arguments)
        return [] if blocks and request.num_output_tokens else blocks

    monkeypatch.setattr(kv, "allocate", allocate_silently)


def overspend(scheduler, monkeypatch):
    """I1: the budget is not looked at."""
    monkeypatch.setattr(StepInProgress, "allowance", lambda step, num_new_tokens: num_new_tokens)


def forget_the_refund(scheduler, monkeypatch):
    """E3: what a victim had been granted is not returned to the budget."""
    take_out = StepInProgress.take_out

    def take_without_refund(draft, request):
        left = draft.num_tokens_left
        num_tokens = take_out(draft, request)
        draft.num_tokens_left = left
        return num_tokens

    monkeypatch.setattr(StepInProgress, "take_out", take_without_refund)


def grant_nothing(scheduler, monkeypatch):
    """E3: a grant of 0 tokens gets into the plan."""
    schedule = StepInProgress.schedule
    monkeypatch.setattr(
        StepInProgress,
        "schedule",
        lambda step, request, num_tokens, num_new: schedule(step, request, 0, num_new),
    )


def drift(scheduler, monkeypatch):
    """I2: a count of computed tokens runs ahead of what is known."""
    scan = scheduler._parts.running_scan
    run = scan.run

    def run_and_drift(step):
        run(step)
        for request in scheduler.running:
            request.num_computed_tokens += 1

    monkeypatch.setattr(scan, "run", run_and_drift)


def become_negative(scheduler, monkeypatch):
    """I2: a count of computed tokens is reset below zero."""
    scan = scheduler._parts.running_scan
    run = scan.run

    def run_and_reset(step):
        run(step)
        for request in scheduler.running:
            request.num_computed_tokens = -100

    monkeypatch.setattr(scan, "run", run_and_reset)


def seat_too_many(scheduler, monkeypatch):
    """I3: max_num_seqs is not looked at."""
    monkeypatch.setattr(scheduler._parts.waiting_scan, "_full", lambda step: "")


def compute_without_slots(scheduler, monkeypatch):
    """I4: a decode is granted though its block could not be had."""
    kv = scheduler.kv_manager
    allocate = kv.allocate

    def allocate_nothing(request, *arguments):
        return [] if request.num_output_tokens else allocate(request, *arguments)

    monkeypatch.setattr(kv, "allocate", allocate_nothing)


def starve(scheduler, monkeypatch):
    """E6: running requests are granted nothing, for ever."""
    monkeypatch.setattr(
        scheduler._parts.running_scan, "_num_tokens", lambda request, num_new, step: 0
    )
    monkeypatch.setattr(scheduler._state.decode_batch, "is_enabled", False)


def end_without_a_reason(scheduler, monkeypatch):
    """E2: an end has no detail."""
    finish = scheduler._parts.ending.finish
    monkeypatch.setattr(
        scheduler._parts.ending,
        "finish",
        lambda request, status, detail: finish(request, status, ""),
    )


def tell_an_end_again(scheduler, monkeypatch):
    """E2: what was told to have ended is told again."""
    commit, told = scheduler._parts.results.commit, {}

    def commit_and_repeat(plan, output):
        outputs = commit(plan, output)
        told.update(outputs.finished)
        outputs.finished.update(told)
        return outputs

    monkeypatch.setattr(scheduler._parts.results, "commit", commit_and_repeat)


def swallow_an_end(scheduler, monkeypatch):
    """E2: an end is never told."""
    commit = scheduler._parts.results.commit

    def commit_and_swallow(plan, output):
        outputs = commit(plan, output)
        outputs.finished.clear()
        return outputs

    monkeypatch.setattr(scheduler._parts.results, "commit", commit_and_swallow)


FAULTS = [
    ("E2", end_without_a_reason),
    ("E2", swallow_an_end),
    ("E2", tell_an_end_again),
    ("E3", forget_the_refund),
    ("E3", grant_nothing),
    ("E5", forget_to_send_a_block),
    ("E5", free_twice),
    ("E5", keep_blocks_of_the_preempted),
    ("E5", leak_a_block),
    ("E5", miscount_references),
    ("E5", publish_under_a_wrong_hash),
    ("E6", starve),
    ("I1", overspend),
    ("I2", become_negative),
    ("I2", drift),
    ("I3", seat_too_many),
    ("I4", compute_without_slots),
]
IDS = [f"{invariant}-{fault.__name__}" for invariant, fault in FAULTS]


def faulty_scheduler(fault, monkeypatch, *, observer=None):
    tight = {"policy": "priority", "max_num_batched_tokens": 20, "max_num_seqs": 3}
    scheduler = scheduler_of(scheduler=tight, observer=observer)
    scheduler.add_request(make_request("L", 11, 20, priority=5))
    if fault is not None:
        fault(scheduler, monkeypatch)
    for name, prompt in (("A", 12), ("B", 13), ("C", 5)):
        scheduler.add_request(make_request(name, prompt, 20))
    return scheduler


@pytest.mark.parametrize(("invariant", "fault"), FAULTS, ids=IDS)
def test_observer_ends_the_run(invariant, fault, monkeypatch):
    """The invariants observer names the fault, and the run fails loudly."""
    scheduler = faulty_scheduler(fault, monkeypatch, observer="raise")
    with pytest.raises(InvariantError) as caught:
        run_bare(scheduler)
    assert invariant in str(caught.value)


@pytest.mark.parametrize(("invariant", "fault"), FAULTS, ids=IDS)
def test_observer_counts_when_it_is_to_log(invariant, fault, monkeypatch):
    """With on_violation = "log" the run goes on and the summary counts."""
    scheduler = faulty_scheduler(fault, monkeypatch, observer="log")
    with contextlib.suppress(Exception):  # a faulty scheduler may well break later
        run_bare(scheduler, max_steps=40)
    (observer,) = scheduler.components.observers
    assert observer.summary()["violations"].get(invariant, 0) > 0


def test_the_same_run_without_a_fault_is_clean(monkeypatch):
    """The scenario itself violates nothing, and it does preempt."""
    scheduler = faulty_scheduler(None, monkeypatch, observer="raise")
    requests = list(scheduler.requests.values())
    run_bare(scheduler, max_steps=300)
    assert not scheduler.has_unfinished
    assert any(request.num_preemptions for request in requests)
    assert scheduler.components.observers[0].summary()["violations"] == {}
    check_idle(scheduler)


# -- Faults that only who drives can see -----------------------------------------


def test_leak_is_seen_when_idle(monkeypatch):
    """E1: a block that never comes back is missed at the end."""
    scheduler = scheduler_of()
    leak_a_block(scheduler, monkeypatch)
    scheduler.add_request(make_request("A", 11, 3))
    run_bare(scheduler)
    with pytest.raises(InvariantError, match=r"^E1: 12 of 13 usable blocks are free"):
        check_idle(scheduler)


def test_remembered_request_is_seen_when_idle():
    """E1: a request that is left in the waiting room is missed at the end."""
    scheduler = scheduler_of()
    scheduler._state.waiting._enter(make_request("A", 11, 3))
    with pytest.raises(InvariantError, match=r"^E1: 1 waiting requests are left"):
        check_idle(scheduler)


def weaken_the_hash(scheduler, monkeypatch):
    """Hash a block's own last token only, so that other histories hit."""
    hasher = scheduler.components.kv_parts[0]
    monkeypatch.setattr(type(hasher), "digest", lambda self, data: data[-4:] * 8)


@pytest.mark.parametrize("verify", [True, False], ids=["at the read", "in the answer"])
def test_wrong_sharing_changes_the_answer(verify, monkeypatch):
    """E4: a hit on another history is seen by its KV, and by the output alone."""
    scheduler = scheduler_of()
    weaken_the_hash(scheduler, monkeypatch)
    driver = Driver(scheduler, ScriptedExecutor.standalone(14, 4, verify=verify))
    driver.add(make_request("A", [1, 2, 3, 4, 5], 2))
    for _ in range(3):
        driver.turn()
    driver.add(make_request("B", [9, 8, 7, 4, 5], 2))
    with pytest.raises(InvariantError, match=r"^E4: request 'B'"):
        driver.finish()


def test_block_freed_too_early_changes_the_answer():
    """E4: a block that somebody else overwrites changes what its owner reads."""
    scheduler = scheduler_of()
    driver = Driver(scheduler, ScriptedExecutor.standalone(14, 4, verify=False))
    driver.add(make_request("A", 6, 6))
    driver.turn()
    block_id = scheduler.kv_manager.block_ids(scheduler.requests["A"].view)[0]
    driver.executor.memory.copy_block(13, block_id)
    with pytest.raises(InvariantError, match=r"^E4: request 'A'"):
        driver.finish()


def test_repeated_token_is_seen():
    """E4: a token that is delivered twice is not what the reference says."""
    scheduler = scheduler_of()
    driver = Driver(scheduler)
    driver.add(make_request("A", 6, 6))
    driver.turn()
    request = scheduler.requests["A"]
    request.token_ids.append(request.token_ids[-1])
    with pytest.raises(InvariantError, match=r"^(E2|E4|I4)"):
        driver.finish()


def planned_and_taken_out():
    """L's last chunk is planned, then H, more urgent, takes its blocks in that step."""
    scheduler = scheduler_of(
        num_blocks=12,
        scheduler={"policy": "priority", "max_num_batched_tokens": 16, "max_num_seqs": 4},
        limit=[{"use": "long-prefill", "threshold": 8}],
    )
    driver = Driver(scheduler)
    driver.add(make_request("L", 40, 2, priority=5))
    driver.turn()
    driver.add(make_request("H", 3, 4))
    return driver


def test_hash_that_is_not_taken_back_is_seen(monkeypatch):
    """I6: blocks published by a plan that was taken back can be found, and hold nothing."""
    driver = planned_and_taken_out()
    monkeypatch.setattr(driver.scheduler.kv_manager, "unpublish", lambda request, n: None)
    with pytest.raises(InvariantError, match=r"^I6: block 10 can be found .*, and only 0 of"):
        driver.finish()


def test_hashes_are_taken_back():
    """The same scenario, as it should go."""
    driver = planned_and_taken_out()
    driver.finish()
    assert [grants["L"] for grants in driver.recorder.grants[:3]] == [16, 8, 8]
    assert driver.recorder.plans[3]["preempted_req_ids"] == ["L"]
    assert driver.recorder.grants[3] == {"H": 1}


def test_victim_left_in_the_plan_is_seen(monkeypatch):
    """E3: a victim that was planned earlier in the step is not taken out of the plan."""
    driver = planned_and_taken_out()
    monkeypatch.setattr(StepInProgress, "take_out", lambda draft, request: 0)
    with pytest.raises(InvariantError, match=r"^E3: request 'L' is scheduled and does not run"):
        driver.finish()


def test_exception_in_an_update_is_seen(monkeypatch):
    """E7: whatever update_from_output() does not announce must not leave it."""
    scheduler = scheduler_of()
    driver = Driver(scheduler)
    driver.add(make_request("A", 6, 6))

    def refuse(*arguments):
        raise IndexError("out of reach")

    monkeypatch.setattr(scheduler._parts.results, "_append", refuse)
    with pytest.raises(InvariantError, match=r"^E7: update_from_output\(\) raised IndexError"):
        driver.turn()


def test_notice_for_an_ended_request_is_seen(monkeypatch):
    """E7: a key that still leads to an aborted request breaks the step."""
    scheduler = scheduler_of(gate=[{"use": "hint"}])
    driver = Driver(scheduler)
    driver.add(make_request("A", 6, 6, hints={"park": "x"}), make_request("B", 6, 6))
    waiting = scheduler._state.waiting
    monkeypatch.setattr(waiting, "_leave_aside", lambda request: waiting._aside.pop("A"))
    driver.abort("A")
    scheduler.signal("x")
    with pytest.raises(InvariantError, match=r"^E7: schedule\(\) raised KeyError: 'A'"):
        driver.finish()


def test_late_and_repeated_notices_are_harmless():
    """The same, as it should go: unknown, late and repeated keys bring nobody."""
    scheduler = scheduler_of(gate=[{"use": "hint"}])
    driver = Driver(scheduler)
    driver.add(make_request("A", 6, 6, hints={"park": "x"}), make_request("B", 6, 6))
    driver.abort("A")
    for key in ("x", "x", "never heard of"):
        scheduler.signal(key)
        scheduler.signal(key)
    driver.finish()
    assert driver.recorder.finished == {"A": "abort/aborted", "B": "length/max_tokens"}


@pytest.mark.parametrize("fenced", [True, False])
def test_block_in_flight_is_handed_out(fenced, monkeypatch):
    """I5: A ends while a later step computes it; its blocks must wait for that step."""
    scheduler = scheduler_of(depth=2, num_blocks=4, kv={"enable_prefix_caching": False})
    driver = Driver(scheduler, depth=2)
    driver.add(make_request("A", 9, 12), make_request("B", 9, 2))
    if not fenced:
        in_flight, kv = scheduler._state.in_flight, scheduler.kv_manager
        free = lambda request, cause: kv.free(kv.detach(request.view, cause)) or 0  # noqa: E731
        monkeypatch.setattr(in_flight, "free_when_done", free)
    driver.plan()
    driver.plan()
    driver.abort("A")
    if fenced:
        driver.finish()
        assert driver.recorder.finished["B"] == "length/max_tokens"
    else:
        with pytest.raises(InvariantError, match=r"^I5: block \d+ is handed to request 'B'"):
            driver.finish()


def test_unknown_end_is_seen():
    """E2: an end of a request that was never added."""
    scheduler = scheduler_of()
    driver = Driver(scheduler)
    stranger = make_request("S", 4)
    stranger.finish = Finish(RequestStatus.FINISHED_STOPPED, "eos")
    (violation,) = driver.watch.ended(stranger.view)
    assert str(violation) == "E2: request 'S' ended and was not live"


def test_run_that_never_ends_is_seen():
    """E6: the driver gives up and says who stands where."""
    scheduler = scheduler_of(gate=[{"use": "hint"}])
    driver = Driver(scheduler)
    driver.add(make_request("A", 6, 6, hints={"park": "x"}))
    with pytest.raises(InvariantError, match=r"^E6: after 20 steps: 'A' PARKED .*'x'"):
        driver.finish(max_steps=20)
