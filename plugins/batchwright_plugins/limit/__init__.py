"""Limits on the scheduled tokens of one request."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_limit() -> list[LazyComponent]:
    return [
        LazyComponent("block-align", "batchwright_plugins.limit.block_align:BlockAlign"),
        LazyComponent("long-prefill", "batchwright_plugins.limit.long_prefill:LongPrefill"),
    ]
