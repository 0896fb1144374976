"""One request's blocks and the hash chain over its tokens."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from batchwright.protocols import Hasher
    from batchwright.request_view import RequestView

__all__ = ["BlockTable", "KnownHashes"]

KnownHashes = dict[bytes, tuple[bytes, bytes]]
"""By hash of a block, the tokens of the last block seen behind it, and that block's hash."""

_SALT: Final = b"s"
_ADAPTER: Final = b"a"
_INPUT: Final = b"i"


class BlockTable:
    """The blocks that a request holds, in the order of its positions.

    Args:
        request: The request.
        hasher: Identifies blocks.
        block_size: Tokens a block.
        known_hashes: Hashes that were computed for other requests; extended.

    Attributes:
        seed: The hash that the chain begins with.
        block_ids: The table.
        num_published: Leading blocks of it that lookups can find.
        num_indexed: Leading blocks of those that the prefix index has hashed, and knows.
        is_waiting: True if the index keeps the table, to hash the others when it has to.
        num_left: Blocks that still wait for that, once the request has given the table up;
            None while it holds it.
        hit_length: Blocks that were cached when a policy last asked.
        num_waits_seen: ``PrefixIndex.num_waits`` at that time.
    """

    __slots__ = (
        "_block_size",
        "_cache_keys",
        "_digest",
        "_hashes",
        "_known_hashes",
        "_request",
        "_token_bytes",
        "block_ids",
        "hit_length",
        "is_waiting",
        "num_indexed",
        "num_left",
        "num_published",
        "num_waits_seen",
        "seed",
    )

    def __init__(
        self,
        request: RequestView,
        hasher: Hasher,
        block_size: int,
        known_hashes: KnownHashes | None = None,
    ) -> None:
        self.block_ids: list[int] = []
        self.num_published = 0
        self.num_indexed = 0
        self.is_waiting = False
        self.num_left: int | None = None
        self.hit_length = 0
        self.num_waits_seen = 0
        self.seed = bytes(hasher.digest_size)
        self._request: RequestView | None = request
        self._cache_keys = request.cache_keys
        self._token_bytes = request.token_bytes
        self._digest = hasher.digest
        self._block_size = block_size
        self._hashes: list[bytes] = []
        self._known_hashes: KnownHashes = {} if known_hashes is None else known_hashes

    def hashes(self, num_blocks: int) -> list[bytes]:
        """The chain over the first full blocks: computed once, kept from then on.

        hash(i) = H(hash(i - 1), tokens of block i, extra keys of block i), which is
        how vLLM's automatic prefix caching identifies a block.

        Returns:
            At least ``num_blocks`` digests; the list grows, do not change it.
        """
        chain = self._hashes
        known = len(chain)
        if known < num_blocks:
            size = self._block_size
            data = self._token_bytes(known * size, num_blocks * size)
            digest, width = self._digest, 4 * size
            parent = chain[-1] if chain else self.seed
            if self._cache_keys or not chain:
                parent = self._hash_with_keys(parent, data, num_blocks)
                data = data[(len(chain) - known) * width :]
            known_hashes = self._known_hashes
            for (block,) in struct.iter_unpack(f"{width}s", data):  # half of what slicing costs
                last = known_hashes.get(parent)
                if last is None or last[0] != block:
                    last = known_hashes[parent] = (block, digest(parent + block))
                parent = last[1]
                chain.append(parent)
        return chain

    def give_up(self) -> None:
        """Part with the request, but keep the tokens of published blocks not indexed yet."""
        if not self.num_indexed:
            self.hashes(1)  # its keys are the request's
        start, stop = self.num_indexed * self._block_size, self.num_published * self._block_size
        self._token_bytes = _Tokens(self._token_bytes(start, stop), start).read
        self._request = None

    def _hash_with_keys(self, parent: bytes, data: bytes, num_blocks: int) -> bytes:
        """Hash blocks that may depend on more than tokens: the first, or all of them.

        Returns:
            The last digest.
        """
        known, width = len(self._hashes), 4 * self._block_size
        for index in range(known, num_blocks if self._cache_keys else 1):
            offset = (index - known) * width
            content = parent + data[offset : offset + width]
            parent = self._digest(content + self._extra_keys(index))
            self._hashes.append(parent)
        return parent

    def _extra_keys(self, index: int) -> bytes:
        """Encode what a block's content depends on beside its tokens.

        Each part has a tag of its kind and a fixed or written length, so that no two
        different identities encode alike. Digest and tokens before them have fixed lengths.
        Salt and adapter stand in the first block only: the chain carries them on.
        """
        parts = []
        if index == 0:
            request = self._request
            assert request is not None, "the first block is hashed before a table is given up"
            for tag, name in ((_SALT, request.cache_salt), (_ADAPTER, request.adapter)):
                if name:  # an empty one is none
                    content = name.encode()
                    parts += [tag, struct.pack("<Q", len(content)), content]
        start, stop = index * self._block_size, (index + 1) * self._block_size
        for key in self._cache_keys:
            if key.start < stop and start < key.stop:
                place = (key.start - start, key.stop - start, len(key.identity))
                parts += [_INPUT, struct.pack("<qqQ", *place), key.identity]
        return b"".join(parts)


class _Tokens:
    """A copy of a request's tokens from a position on, 4 bytes each."""

    __slots__ = ("_data", "_start")

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start

    def read(self, start: int, stop: int) -> bytes:
        """Tokens ``[start, stop)``."""
        return self._data[4 * (start - self._start) : 4 * (stop - self._start)]
