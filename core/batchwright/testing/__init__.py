"""Tools for testing plugins, executors and the scheduler itself.

``drive`` runs requests through a scheduler with an executor that needs no model, and
raises ``InvariantError`` as soon as something is wrong::

    from batchwright.testing import drive, make_request

    scheduler = Scheduler.from_config({"kv": {"num_blocks": 14}})
    run = drive(scheduler, [make_request("A", 31, 40), make_request("B", 30, 40)])
    assert run.recorder.grants[0] == {"A": 31, "B": 30}

``batchwright.testing.conformance`` has a class for each kind of component that checks what
its contract says; it needs pytest. The invariants and their ids are listed in
``batchwright.testing.violations``.
"""

from batchwright.testing.arrivals import odd_requests, random_arrivals
from batchwright.testing.assertions import check_idle, check_outputs, check_step
from batchwright.testing.driver import Driver, drive
from batchwright.testing.executor import ScriptedExecutor
from batchwright.testing.memory import PagedMemory
from batchwright.testing.model import ScriptedModel, reference_output
from batchwright.testing.plugins import make_plugin
from batchwright.testing.recorder import Recorder
from batchwright.testing.requests import make_request, prompt_tokens
from batchwright.testing.spy import Call, Spy
from batchwright.testing.violations import Violation, plan_violations, raise_violations
from batchwright.testing.watch import Watch

__all__ = [
    "Call",
    "Driver",
    "PagedMemory",
    "Recorder",
    "ScriptedExecutor",
    "ScriptedModel",
    "Spy",
    "Violation",
    "Watch",
    "check_idle",
    "check_outputs",
    "check_step",
    "drive",
    "make_plugin",
    "make_request",
    "odd_requests",
    "plan_violations",
    "prompt_tokens",
    "raise_violations",
    "random_arrivals",
    "reference_output",
]
