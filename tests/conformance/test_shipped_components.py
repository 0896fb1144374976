"""Every component that ships with Batchwright keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

from batchwright.hookspecs import COMPONENT_KINDS
from batchwright.plugin_manager import PluginManager
from batchwright.testing.conformance import CONFORMANCE, conformance_for

SHIPPED = [r for r in PluginManager.discover().registrations() if r.distribution == "batchwright"]

ATTRIBUTES: dict[tuple[str, str], dict[str, Any]] = {
    ("limit", "long-prefill"): {"options": {"threshold": 8}},
    ("gate", "queue-limit"): {"options": {"requests": 20, "prompt_tokens": 300}},
    ("gate", "watermark"): {"options": {"fraction": 0.2}},
    ("gate", "queue-timeout"): {
        "options": {"seconds": 30.0, "classes": {"interactive": 12.0, "batch": 90.0}}
    },
    ("gate", "quota"): {"options": {"tokens": 100, "window": 20.0, "clients": {"ada": 60}}},
    ("control", "decode-first"): {"options": {"max_wait": 9.0}},
    ("control", "delay"): {"options": {"factor": 3.0}},
    ("policy", "dlpm"): {"options": {"quantum": 50.0, "weights": {"ada": 2.0}}},
    ("policy", "edf"): {
        "options": {
            "targets": {"interactive": 8.0, "batch": 60.0},
            "default_target": 30.0,
            "prefill_time": 0.1,
            "decode_time": 1.0,
        }
    },
    ("policy", "fair"): {"options": {"weights": {"ada": 2.0}}},
    ("policy", "lpm"): {"options": {"max_wait": 20.0}},
    ("policy", "mlfq"): {"options": {"quantum": 32, "levels": 3, "max_wait": 40.0}},
    ("policy", "priority"): {"options": {"preempts": True}},
    ("policy", "session"): {"options": {"warm_time": 10.0, "max_wait": 20.0}},
    ("policy", "sjf"): {"options": {"size": "uncached", "aging": 1.0}},
    ("policy", "srpt"): {"options": {"max_wait": 40.0}},
    ("policy", "window"): {
        "options": {"window": 8, "size": 1.0, "fairness": 1.0, "filters": ["fits", "share"]}
    },
}
"""What is said of components whose defaults would change nothing in small workloads."""

ELSEWHERE = {
    ("executor", "torch"): "tests/conformance/test_shipped_executors.py",
    ("executor", "simulated"): "tests/conformance/test_shipped_executors.py",
    ("predictor", "oracle"): "tests/conformance/test_shipped_oracles.py",
    ("predictor", "noisy"): "tests/conformance/test_shipped_oracles.py",
    ("workload", "azure"): "tests/conformance/test_shipped_traces.py",
    ("workload", "burstgpt"): "tests/conformance/test_shipped_traces.py",
    ("workload", "jsonl"): "tests/conformance/test_shipped_traces.py",
    ("workload", "mooncake"): "tests/conformance/test_shipped_traces.py",
    ("workload", "servegen"): "tests/conformance/test_shipped_traces.py",
    ("workload", "sharegpt"): "tests/conformance/test_shipped_traces.py",
    ("estimator", "measured"): "tests/conformance/test_shipped_traces.py",
    ("attention", "torch-varlen"): "tests/kernels/suite.py",
    ("attention", "triton"): "tests/kernels/suite.py",
    ("attention", "xformers"): "tests/kernels/suite.py",
}

for found in SHIPPED:
    place = found.kind, found.name
    if place not in ELSEWHERE:
        suite = conformance_for(found.kind, found.cls, **ATTRIBUTES.get(place, {}))
        globals()[f"Test_{found.kind}_{found.name}"] = suite


def test_every_kind_has_a_conformance_class() -> None:
    assert list(CONFORMANCE) == sorted(COMPONENT_KINDS)


def test_exceptions_are_still_there() -> None:
    known = {(found.kind, found.name) for found in SHIPPED}
    assert known >= {*ATTRIBUTES, *ELSEWHERE}
