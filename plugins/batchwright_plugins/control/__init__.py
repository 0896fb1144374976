"""Step controls."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Control
from batchwright_plugins.control.concurrent_prefills import ConcurrentPrefills
from batchwright_plugins.control.decode_first import DecodeFirst
from batchwright_plugins.control.delay import Delay
from batchwright_plugins.control.latency_target import LatencyTarget
from batchwright_plugins.control.prefill_first import PrefillFirst
from batchwright_plugins.control.prefill_share import PrefillShare


@hookimpl
def batchwright_register_control() -> list[type[Control]]:
    return [ConcurrentPrefills, DecodeFirst, Delay, LatencyTarget, PrefillFirst, PrefillShare]
