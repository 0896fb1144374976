"""Step controls."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_control() -> list[Offer]:
    return [
        Offer(
            "concurrent-prefills",
            "batchwright_plugins.control.concurrent_prefills:ConcurrentPrefills",
        ),
        Offer("decode-first", "batchwright_plugins.control.decode_first:DecodeFirst"),
        Offer("delay", "batchwright_plugins.control.delay:Delay"),
        Offer("latency-target", "batchwright_plugins.control.latency_target:LatencyTarget"),
        Offer("prefill-first", "batchwright_plugins.control.prefill_first:PrefillFirst"),
        Offer("prefill-share", "batchwright_plugins.control.prefill_share:PrefillShare"),
    ]
