"""Admission gates."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Gate
from batchwright_plugins.gate.full_need import FullNeed
from batchwright_plugins.gate.peak_memory import PeakMemory
from batchwright_plugins.gate.queue_limit import QueueLimit
from batchwright_plugins.gate.queue_timeout import QueueTimeout
from batchwright_plugins.gate.quota import Quota
from batchwright_plugins.gate.watermark import Watermark


@hookimpl
def batchwright_register_gate() -> list[type[Gate]]:
    return [FullNeed, PeakMemory, QueueLimit, QueueTimeout, Quota, Watermark]
