"""Victims: who yields when blocks run out."""

from batchwright.hookspecs import hookimpl
from batchwright.offer import Offer


@hookimpl
def batchwright_register_victim() -> list[Offer]:
    return [
        Offer("cost-aware", "batchwright_plugins.victim.cost_aware:CostAware"),
        Offer("least-computed", "batchwright_plugins.victim.least_computed:LeastComputed"),
        Offer("lifo", "batchwright_plugins.victim.lifo:Lifo"),
        Offer("lowest-priority", "batchwright_plugins.victim.lowest_priority:LowestPriority"),
        Offer("most-blocks", "batchwright_plugins.victim.most_blocks:MostBlocks"),
        Offer("random", "batchwright_plugins.victim.random_victim:RandomVictim"),
    ]
