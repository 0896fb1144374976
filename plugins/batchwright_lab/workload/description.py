"""Figures of a workload."""

from __future__ import annotations

import sys
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from batchwright_plugins.metrics import mean, percentile

if TYPE_CHECKING:
    from batchwright.protocols import Arrival

__all__ = ["describe", "rows"]

CACHE_SIZES: Final = (1_000, 10_000, 50_000, None)
"""Blocks of the caches that sharing is measured in; None: without end."""
_SHARES: Final = (50, 90, 99)
_MOST_CLIENTS: Final = 5


def describe(arrivals: Iterable[Arrival], limit: int, block_size: int) -> dict[str, Any]:
    """Measure what arrives.

    Args:
        arrivals: In order of time.
        limit: Number of requests to read.
        block_size: Tokens of a block that prompts may share.

    Returns:
        ``requests``, ``seconds``, ``rate`` (1/s), ``gap_cv``, ``prompt_tokens`` and
        ``output_tokens`` (each mean, p50, p90, p99, max), ``sharing`` (by blocks of an LRU
        cache, hit tokens over prompt tokens), ``block_size``, ``clients``, ``top_clients``
        (their shares of requests), ``groups``.
    """
    times, prompts, outputs = array("d"), array("I"), array("I")
    clients: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    caches = {size: _Lru(size) for size in CACHE_SIZES}
    for arrival in islice(arrivals, limit):
        times.append(arrival.time)
        prompts.append(len(arrival.prompt_token_ids))
        outputs.append(arrival.num_output_tokens)
        blocks = list(_blocks(arrival, block_size))
        for cache in caches.values():
            cache.use(blocks)
        clients.update([arrival.client] if arrival.client is not None else ())
        groups.update([arrival.group] if arrival.group is not None else ())
    total = sum(prompts)
    return {
        "requests": len(times),
        **_rates(times),
        "prompt_tokens": _lengths(prompts),
        "output_tokens": _lengths(outputs),
        "block_size": block_size,
        "sharing": {
            str(size or "endless"): cache.num_hits * block_size / total if total else None
            for size, cache in caches.items()
        },
        "clients": len(clients),
        "top_clients": [n / len(times) for _, n in clients.most_common(_MOST_CLIENTS)],
        "groups": len(groups),
    }


def rows(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The figures as a table of two columns."""
    yield "requests", f"{facts['requests']:,} in {facts['seconds']:,.1f} s"
    rate, cv = facts["rate"], facts["gap_cv"]
    if rate is not None and cv is not None:
        yield "arrivals", f"{rate:,.2f} a second, CV of gaps {cv:.2f}"
    for name in ("prompt", "output"):
        found = facts[f"{name}_tokens"]
        if found["mean"] is not None:
            shares = ", ".join(f"p{share} {found[f'p{share}']:,.0f}" for share in _SHARES)
            yield f"{name} tokens", f"mean {found['mean']:,.0f}, {shares}, max {found['max']:,}"
    shared = ", ".join(
        f"{int(size):,} blocks {ratio:.1%}" if size != "endless" else f"endless {ratio:.1%}"
        for size, ratio in facts["sharing"].items()
        if ratio is not None
    )
    yield "shared prompt tokens", f"{shared} (LRU, blocks of {facts['block_size']} tokens)"
    if facts["clients"]:
        top = ", ".join(f"{share:.1%}" for share in facts["top_clients"])
        yield "clients", f"{facts['clients']:,}; the busiest make {top} of the requests"
    if facts["groups"]:
        yield "groups", f"{facts['groups']:,}"


class _Lru:
    """Blocks that were used last, so many of them; a hit is a prefix that is all there."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self.num_hits = 0

    def use(self, blocks: list[bytes]) -> None:
        hits = True
        for block in blocks:
            hits = hits and block in self._blocks
            self.num_hits += hits
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while self._size is not None and len(self._blocks) > self._size:
            self._blocks.popitem(last=False)


def _blocks(arrival: Arrival, size: int) -> Iterator[bytes]:
    """Digests of the full blocks of a prompt, each over all that is before its end."""
    data = array("I", arrival.prompt_token_ids)
    if sys.byteorder == "big":
        data.byteswap()
    content, parent = data.tobytes(), b""
    for offset in range(0, len(content) - 4 * size + 1, 4 * size):
        parent = blake2b(parent + content[offset : offset + 4 * size], digest_size=16).digest()
        yield parent


def _rates(times: array[float]) -> dict[str, float | None]:
    gaps = [after - before for before, after in pairwise(times)]
    average = mean(gaps)
    if not average:
        return {"seconds": 0.0, "rate": None, "gap_cv": None}
    variance = sum((gap - average) ** 2 for gap in gaps) / len(gaps)
    return {"seconds": times[-1] - times[0], "rate": 1 / average, "gap_cv": variance**0.5 / average}


def _lengths(values: array[int]) -> dict[str, float | int | None]:
    ordered = sorted(values)
    return {
        "mean": mean(ordered),
        **{f"p{share}": percentile(ordered, share) for share in _SHARES},
        "max": ordered[-1] if ordered else None,
    }
