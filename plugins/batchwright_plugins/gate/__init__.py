"""Admission gates."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_gate() -> list[Offer]:
    return [
        Offer("full-need", "batchwright_plugins.gate.full_need:FullNeed"),
        Offer("peak-memory", "batchwright_plugins.gate.peak_memory:PeakMemory"),
        Offer("queue-limit", "batchwright_plugins.gate.queue_limit:QueueLimit"),
        Offer("queue-timeout", "batchwright_plugins.gate.queue_timeout:QueueTimeout"),
        Offer("quota", "batchwright_plugins.gate.quota:Quota"),
        Offer("watermark", "batchwright_plugins.gate.watermark:Watermark"),
    ]
