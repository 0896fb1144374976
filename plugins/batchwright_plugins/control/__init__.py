"""Step controls."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_control() -> list[LazyComponent]:
    return [
        LazyComponent(
            "concurrent-prefills",
            "batchwright_plugins.control.concurrent_prefills:ConcurrentPrefills",
        ),
        LazyComponent("decode-first", "batchwright_plugins.control.decode_first:DecodeFirst"),
        LazyComponent("delay", "batchwright_plugins.control.delay:Delay"),
        LazyComponent("latency-target", "batchwright_plugins.control.latency_target:LatencyTarget"),
        LazyComponent("prefill-first", "batchwright_plugins.control.prefill_first:PrefillFirst"),
        LazyComponent("prefill-share", "batchwright_plugins.control.prefill_share:PrefillShare"),
    ]
