"""Limits on one request's grant."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Limit
from batchwright_plugins.limit.block_align import BlockAlign
from batchwright_plugins.limit.long_prefill import LongPrefill


@hookimpl
def batchwright_register_limit() -> list[type[Limit]]:
    return [BlockAlign, LongPrefill]
