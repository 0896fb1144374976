"""Limits on one request's grant."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_limit() -> list[Offer]:
    return [
        Offer("block-align", "batchwright_plugins.limit.block_align:BlockAlign"),
        Offer("long-prefill", "batchwright_plugins.limit.long_prefill:LongPrefill"),
    ]
