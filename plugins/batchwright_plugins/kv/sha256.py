"""SHA-256."""

from __future__ import annotations

from hashlib import sha256

from batchwright.protocols import Hasher

__all__ = ["Sha256"]


class Sha256(Hasher):
    """SHA-256: no client can make blocks collide. About 0.5 us a block of 16 tokens."""

    name = "sha256"
    digest_size = 32

    def digest(self, data: bytes) -> bytes:
        return sha256(data).digest()
