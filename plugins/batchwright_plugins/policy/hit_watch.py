"""The hits of waiting requests, kept current from the requests that compute them."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define, frozen

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.request_view import RequestView

__all__ = ["HitWatch"]

MAX_WOKEN = 64


@frozen
class _Seen:
    """The hit of a request when it was last looked at.

    Args:
        hit: Tokens.
        depth: Tokens that will be cached once its next block is; 0: it has no other.
        prefix: Identity of those tokens.
    """

    hit: int
    depth: int
    prefix: bytes


@define
class Watched:
    """A waiting request, as it was last looked at."""

    seen: _Seen | None = None


class HitWatch:
    """The hits of waiting requests, kept current without a look at all of them.

    A hit grows when the next block of the request's prefix is computed; that is done by a
    request that begins with the same tokens. So each waiting request is listed under its
    prefix up to the end of that block, and who computes a prefix wakes those listed under
    it. A hit that shrinks, since blocks were evicted, is found at the next look.

    Waking costs a hash over the prompt that is computed, and a look (two look-ups) for each
    of those woken; at most 64 at a time, those that waited longest, since each of them
    wakes others when its turn comes.

    Args:
        ctx: The policy's, whose ``Data`` is ``Watched``.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._listed: dict[bytes, dict[RequestView, None]] = {}
        self._depths: Counter[int] = Counter()

    def hit(self, request: RequestView) -> int:
        """Cached tokens of a waiting request, as last seen."""
        seen: _Seen | None = self._ctx.data(request).seen
        return self.look(request) if seen is None else seen.hit

    def look(self, request: RequestView) -> int:
        """See what is cached of a waiting request now (tokens), and watch for more."""
        self.drop(request)
        hit = self._ctx.prefix_hit(request)
        depth = hit + self._ctx.sizes.block_size
        is_last = depth >= request.num_tokens or not self._ctx.sizes.enable_prefix_caching
        seen = _Seen(hit, 0, b"") if is_last else _Seen(hit, depth, _identity(request, [depth])[0])
        self._ctx.data(request).seen = seen
        if not is_last:
            self._listed.setdefault(seen.prefix, {})[request] = None
            self._depths[depth] += 1
        return hit

    def has_shrunk(self, request: RequestView) -> bool:
        """Return True if the hit of a request is smaller than when it was seen."""
        return self._ctx.prefix_hit(request) < self.hit(request)

    def drop(self, request: RequestView) -> None:
        """Watch a request no longer."""
        seen: _Seen | None = self._ctx.data(request).seen
        self._ctx.data(request).seen = None
        if seen is None or not seen.depth:
            return
        del self._listed[seen.prefix][request]
        if not self._listed[seen.prefix]:
            del self._listed[seen.prefix]
        self._depths[seen.depth] -= 1
        if not self._depths[seen.depth]:
            del self._depths[seen.depth]

    def woken_by(self, request: RequestView) -> list[RequestView]:
        """Those whose hit may have grown since a request's tokens are being computed."""
        depths = sorted(depth for depth in self._depths if depth <= request.num_tokens)
        groups = [self._listed.get(prefix, {}) for prefix in _identity(request, depths)]
        return list(islice((waiting for group in groups for waiting in group), MAX_WOKEN))


def _identity(request: RequestView, depths: list[int]) -> list[bytes]:
    """Identities of a request's first tokens, up to each of several ascending depths."""
    identity = request.cache_salt or "", request.adapter or ""  # an empty one is none
    digest = hashlib.blake2b(repr(identity).encode(), digest_size=16)
    found, start = [], 0
    for depth in depths:
        digest.update(request.token_bytes(start, depth))
        found.append(digest.digest())
        start = depth
    return found
