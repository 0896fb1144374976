"""The progress line."""

import io

from rich.console import Console

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols import Observer
from batchwright.testing import Driver, make_plugin, make_request
from batchwright_plugins.observer.progress import Progress


def make_driver(console):
    class Shown(Progress):
        name = "shown"

        def __init__(self, options, ctx):
            super().__init__(options, ctx)
            self.console = console

    assert issubclass(Shown, Observer)
    scheduler = scheduler_from_config(
        {"kv": {"num_blocks": 11}, "observer": [{"use": "shown"}]},
        clock=VirtualClock(),
        plugins=[make_plugin(observer=[Shown])],
    )
    return Driver(scheduler), scheduler.components.observers[0]


def test_line_says_how_far_it_is():
    driver, progress = make_driver(Console(file=io.StringIO(), force_terminal=False))
    assert progress.line() == "0/0 requests, - tokens/s, 0 running, 0 waiting, KV 0% at 0.0 s"
    progress.expect(3)
    driver.add(make_request("A", 30, 1), make_request("B", 40, 4))
    driver.turn()
    assert progress.line() == "1/3 requests, 70 tokens/s, 1 running, 0 waiting, KV 30% at 1.0 s"
    driver.add(*(make_request(f"more-{n}", 5, 1) for n in range(2)))
    assert progress.line().startswith("1/4 requests, ")


def test_nothing_is_drawn_without_a_terminal():
    file = io.StringIO()
    driver, _ = make_driver(Console(file=file, force_terminal=False))
    driver.add(make_request("A", 30, 3))
    driver.finish()
    driver.scheduler.close()
    assert file.getvalue() == ""


def test_terminal_shows_the_end():
    file = io.StringIO()
    driver, _ = make_driver(Console(file=file, force_terminal=True, width=100))
    driver.add(make_request("A", 30, 3))
    driver.finish()
    driver.scheduler.close()
    driver.scheduler.close()
    assert "1/1 requests" in file.getvalue()
