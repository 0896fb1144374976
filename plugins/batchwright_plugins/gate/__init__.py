"""Admission gates."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_gate() -> list[LazyComponent]:
    return [
        LazyComponent("full-need", "batchwright_plugins.gate.full_need:FullNeed"),
        LazyComponent("peak-memory", "batchwright_plugins.gate.peak_memory:PeakMemory"),
        LazyComponent("queue-limit", "batchwright_plugins.gate.queue_limit:QueueLimit"),
        LazyComponent("queue-timeout", "batchwright_plugins.gate.queue_timeout:QueueTimeout"),
        LazyComponent("quota", "batchwright_plugins.gate.quota:Quota"),
        LazyComponent("watermark", "batchwright_plugins.gate.watermark:Watermark"),
    ]
