"""One request's blocks and the hash chain over its tokens."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from batchwright.protocols import Hasher
    from batchwright.request_view import RequestView

__all__ = ["BlockTable"]

_SALT: Final = b"s"
_ADAPTER: Final = b"a"
_INPUT: Final = b"i"


class BlockTable:
    """The blocks that a request holds, in the order of its positions.

    Args:
        request: The request.
        hasher: Identifies blocks.
        block_size: Tokens a block.

    Attributes:
        block_ids: The table.
        num_published: Leading blocks of it that the prefix index knows.
        hit_length: Blocks that were cached when a policy last asked.
    """

    __slots__ = (
        "_block_size",
        "_cache_keys",
        "_digest",
        "_hashes",
        "_request",
        "_seed",
        "_token_bytes",
        "block_ids",
        "hit_length",
        "num_published",
    )

    def __init__(self, request: RequestView, hasher: Hasher, block_size: int) -> None:
        self.block_ids: list[int] = []
        self.num_published = 0
        self.hit_length = 0
        self._request = request
        self._cache_keys = request.cache_keys
        self._token_bytes = request.token_bytes
        self._digest = hasher.digest
        self._block_size = block_size
        self._hashes: list[bytes] = []
        self._seed = bytes(hasher.digest_size)

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
            parent = chain[-1] if chain else self._seed
            if self._cache_keys or not chain:
                parent = self._hash_with_keys(parent, data, num_blocks)
                data = data[(len(chain) - known) * width :]
            blocks = struct.iter_unpack(f"{width}s", data)  # half of what slicing costs
            chain += [parent := digest(parent + block) for (block,) in blocks]
        return chain

    def publish_next(self) -> tuple[bytes, int]:
        """Count the first block that is not published, and is full, as published.

        Returns:
            Its digest and its id.
        """
        chain, index = self._hashes, self.num_published
        if index == len(chain) > 0 and not self._cache_keys:
            # What a decode needs, once a block.
            start = index * self._block_size
            data = chain[-1] + self._token_bytes(start, start + self._block_size)
            digest = self._digest(data)
            chain.append(digest)
        else:
            digest = self.hashes(index + 1)[index]
        self.num_published = index + 1
        return digest, self.block_ids[index]

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
