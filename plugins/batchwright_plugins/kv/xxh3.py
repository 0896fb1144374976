"""XXH3, 128 bits."""

from __future__ import annotations

import xxhash

from batchwright.protocols import Hasher

__all__ = ["Xxh3"]


class Xxh3(Hasher):
    """XXH3 of 128 bits: faster, and no accident makes two blocks collide.

    It is not a cryptographic hash. If hostile clients share a cache, use ``sha256``, or give
    each of them a ``cache_salt``.
    """

    name = "xxh3-128"
    digest_size = 16

    digest = staticmethod(xxhash.xxh3_128_digest)  # no call in between
