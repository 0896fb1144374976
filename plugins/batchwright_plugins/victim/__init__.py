"""Victims: who yields when blocks run out."""

from batchwright.hookspecs import hookimpl
from batchwright.lazy_component import LazyComponent


@hookimpl
def batchwright_register_victim() -> list[LazyComponent]:
    return [
        LazyComponent("cost-aware", "batchwright_plugins.victim.cost_aware:CostAware"),
        LazyComponent("least-computed", "batchwright_plugins.victim.least_computed:LeastComputed"),
        LazyComponent("lifo", "batchwright_plugins.victim.lifo:Lifo"),
        LazyComponent(
            "lowest-priority", "batchwright_plugins.victim.lowest_priority:LowestPriority"
        ),
        LazyComponent("most-blocks", "batchwright_plugins.victim.most_blocks:MostBlocks"),
        LazyComponent("random", "batchwright_plugins.victim.random_victim:RandomVictim"),
    ]
