"""KV managers, and the hashers and evictions that they are built of."""

from batchwright.hookspecs import hookimpl
from batchwright.protocols import Eviction, Hasher, KVManager
from batchwright_plugins.kv.lru import Lru
from batchwright_plugins.kv.paged import PagedKV
from batchwright_plugins.kv.sha256 import Sha256
from batchwright_plugins.kv.xxh3 import Xxh3


@hookimpl
def batchwright_register_kv() -> list[type[KVManager]]:
    return [PagedKV]


@hookimpl
def batchwright_register_hasher() -> list[type[Hasher]]:
    return [Sha256, Xxh3]


@hookimpl
def batchwright_register_eviction() -> list[type[Eviction]]:
    return [Lru]
