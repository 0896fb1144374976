"""Victims: who yields when blocks run out."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Victim
from batchwright_plugins.victim.lifo import Lifo
from batchwright_plugins.victim.lowest_priority import LowestPriority


@hookimpl
def batchwright_register_victim() -> list[type[Victim]]:
    return [Lifo, LowestPriority]
