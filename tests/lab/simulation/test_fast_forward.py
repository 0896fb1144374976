"""Fast-forwarding leaves what stepping leaves, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from batchwright import Request, StepError
from batchwright.config import Config
from batchwright.exceptions import ConfigError
from batchwright.protocols import Arrival, Control, Observer
from batchwright.testing import make_plugin
from batchwright_lab.simulation.fast_forward import FastForwarder

from .cases import ACTING, random_arrivals, random_config
from .conftest import ONE_SECOND


def state_of(ran: Any) -> dict[str, Any]:
    """Everything that later decisions depend on."""
    scheduler = ran.scheduler
    state = scheduler._state
    usage = state.usage
    return {
        "time": scheduler.clock.now(),
        "began": state.step.now,
        "step": state.step_id,
        "counts": state.counts,
        "tables": {r.request_id: state.kv.block_ids(r.view) for r in scheduler.running},
        "tokens": {name: list(r.token_ids) for name, r in scheduler.requests.items()},
        "computed": {n: r.num_computed_tokens for n, r in scheduler.requests.items()},
        "free": list(scheduler.components.kv_parts[1]),
        "hashes": hashes_of(state.kv),
        "batch": [r.request_id for r in scheduler.running if r in state.decode_batch],
        "usage": {
            key: (usage[key].decode_tokens, usage[key].block_steps, usage[key].num_blocks)
            for key in usage
        },
        "timers": list(state.token_timers.reached),
        "audit": list(state.kv.audit(scheduler.held_blocks())),
        "table": ran.read("requests.csv"),
        "stats": [o.summary() for o in scheduler.components.observers],
    }


def hashes_of(kv: Any) -> list[bytes | None]:
    """The hash of each published block."""
    kv._index.hash_all()
    return list(kv._index.hash_of)


@pytest.mark.parametrize("seed", range(40))
def test_fast_forwarding_leaves_what_stepping_leaves(seed: int, simulate: Any) -> None:
    """At the end, and wherever a run is cut off."""
    chance = random.Random(f"leap/{seed}")
    config = random_config(chance, gates=False)
    config["scheduler"]["pipeline_depth"] = 1
    config["observer"] = [{"use": "stats"}]
    arrivals = list(random_arrivals(chance))
    for until in (None, 0.3, 1.1, 2.9):
        stepped, forwarded = (
            state_of(
                simulate(
                    arrivals,
                    config,
                    plugins=[ACTING],
                    close=until is None,
                    fast_forward=fast_forward,
                    until=until,
                )
            )
            for fast_forward in (False, True)
        )
        assert forwarded == stepped
        assert forwarded["audit"] == []


def crowd(count: int, length: int) -> list[Arrival]:
    return [
        Arrival(time=0.0, prompt_token_ids=[n, 1, 2], num_output_tokens=length)
        for n in range(count)
    ]


def num_fast_forwards(ran_with: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    from batchwright_lab.simulation.simulated import Simulated

    calls = []
    plain = Simulated.fast_forward

    def fast_forward(self: Simulated, *steps: Any) -> Any:
        calls.append(steps)
        return plain(self, *steps)

    monkeypatch.setattr(Simulated, "fast_forward", fast_forward)
    ran_with()
    return len(calls)


def test_steps_between_events_are_computed_at_once(
    simulate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, from the first token to the end of all."""
    assert num_fast_forwards(lambda: simulate(crowd(8, 100)), monkeypatch) == 1


def test_an_arrival_ends_a_fast_forward(simulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken in before the step after which it came, as by stepping."""
    late = Arrival(time=100.5, prompt_token_ids=[9, 9], num_output_tokens=3)
    ran = simulate([*crowd(1, 500), late])
    row = ran.read("requests.csv").decode().splitlines()[1].split(",")
    assert row[2:6] == ["100.5", "101.0", "102.0", "104.0"]


class Sees(Observer):
    """Wants to see every step."""

    name = "sees"
    num_steps = 0

    def on_step(self, record):
        self.num_steps += 1


class Caps(Control):
    """Is asked at every step."""

    name = "caps"

    def caps(self, view):
        return None


@pytest.mark.parametrize(
    "config",
    [
        {"observer": [{"use": "sees"}]},
        {"control": [{"use": "caps"}]},
        {"scheduler": {"pipeline_depth": 2}},
        {"scheduler": {"num_lookahead_tokens": 1}},
    ],
    ids=["observer", "control", "pipeline", "lookahead"],
)
def test_component_that_needs_every_step_switches_it_off(
    config: dict[str, Any], simulate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = [make_plugin(observer=[Sees], control=[Caps])]
    assert (
        num_fast_forwards(lambda: simulate(crowd(4, 50), config, plugins=plugins), monkeypatch) == 0
    )


def test_full_seats_do_not_stop_it(simulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits for a seat waits until one ends."""
    config = {"scheduler": {"max_num_seqs": 2}}
    assert num_fast_forwards(lambda: simulate(crowd(6, 100), config), monkeypatch) == 3


def test_it_is_refused_within_a_step(simulate: Any) -> None:
    class Calls(Observer):
        """Fast-forwards in the middle of a step."""

        name = "calls"
        said: list[str] = []

        def on_admit(self, request, hit, need):
            if not forwarders:
                return
            try:
                forwarders[0].commit([], [], 0.0)
            except StepError as error:
                self.said.append(str(error))

    forwarders: list[FastForwarder] = []
    plugin = make_plugin(observer=[Calls])
    ran = simulate(crowd(1, 3), {"observer": [{"use": "calls"}]}, plugins=[plugin])
    forwarders.append(FastForwarder(ran.scheduler, ran.simulation.engine.executor))
    ran.scheduler.add_request(Request(request_id="late", prompt_token_ids=[1]))
    ran.scheduler.schedule()
    assert Calls.said == ["fast_forward() was called from within schedule()"]


def test_option_says_what_it_is_called_now() -> None:
    message = r"simulation.leap: is called simulation.fast_forward now"
    with pytest.raises(ConfigError, match=message):
        Config.from_dict({"simulation": {"leap": False}})


def test_times_are_added_one_by_one(simulate: Any) -> None:
    """0.1 added ten times is not 1.0: a fast-forward adds as steps do."""
    tenth = {"estimator": {"linear": {**ONE_SECOND, "base": 0.1}}}
    ran = simulate(crowd(1, 10), tenth)
    total = 0.0
    for _ in range(10):
        total += 0.1
    assert total != 1.0
    assert ran.scheduler.clock.now() == total


def test_prompt_whose_last_chunk_is_one_token_has_its_first_token(simulate: Any) -> None:
    """A chunk of one token looks like a decode, and is none yet."""
    config = {"scheduler": {"max_num_batched_tokens": 64, "max_num_seqs": 4}}
    long = Arrival(time=0.0, prompt_token_ids=list(range(65)), num_output_tokens=9)
    for fast_forward in (True, False):
        ran = simulate([long], config, fast_forward=fast_forward)
        row = ran.read("requests.csv").decode().splitlines()[1].split(",")
        assert row[3:6] == ["0.0", "2.0", "10.0"]
