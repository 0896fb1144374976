"""Victims: who yields when blocks run out."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Victim
from batchwright_plugins.victim.cost_aware import CostAware
from batchwright_plugins.victim.least_computed import LeastComputed
from batchwright_plugins.victim.lifo import Lifo
from batchwright_plugins.victim.lowest_priority import LowestPriority
from batchwright_plugins.victim.most_blocks import MostBlocks
from batchwright_plugins.victim.random_victim import RandomVictim


@hookimpl
def batchwright_register_victim() -> list[type[Victim]]:
    return [CostAware, LeastComputed, Lifo, LowestPriority, MostBlocks, RandomVictim]
