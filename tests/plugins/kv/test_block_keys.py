"""Blocks are shared under equal salts, adapters and inputs, and under no others."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.request import CacheKey
from batchwright.testing.requests import make_request
from batchwright_plugins.kv.block_table import BlockTable
from batchwright_plugins.kv.sha256 import Sha256

PROMPT = list(range(16))

texts = st.sampled_from(["", "i", "\0" * 8, "\x10" + "\0" * 7, "\1\0\0\0i"])
cache_keys = st.builds(
    CacheKey, st.integers(0, 1), st.integers(7, 8), st.sampled_from([b"", b"i", b"\0" * 8])
)
identities = st.fixed_dictionaries(
    {
        "cache_salt": st.none() | texts,
        "adapter": st.none() | texts,
        "cache_keys": st.lists(cache_keys, max_size=2).map(tuple),
    }
)


def hashes(**identity: Any) -> list[bytes]:
    """Digests of the four blocks of one prompt."""
    request = make_request("a", PROMPT, **identity)
    return BlockTable(request.view, Sha256(Sha256.Options(), None), 4).hashes(4)


def meaning(identity: dict[str, Any]) -> tuple[Any, ...]:
    """An empty salt or adapter is none."""
    return identity["cache_salt"] or "", identity["adapter"] or "", identity["cache_keys"]


@settings(max_examples=40)
@given(st.lists(identities, min_size=40, max_size=40))
def test_as_many_identities_as_digests(several: list[dict[str, Any]]) -> None:
    """No two that differ hash alike."""
    meanings = {meaning(identity) for identity in several}
    assert len({tuple(hashes(**identity)) for identity in several}) == len(meanings)


def test_a_salt_does_not_pass_for_an_input() -> None:
    """A salt and an adapter were framed like a key's position and its identity."""
    image = hashes(cache_keys=(CacheKey(0, 16, b"imgid"),))
    assert hashes(cache_salt="\0" * 8, adapter="imgid")[0] != image[0]


def test_blocks_without_identity_hash_tokens_alone() -> None:
    tokens = make_request("a", PROMPT).view.token_bytes(0, 4)
    assert hashes()[0] == sha256(bytes(32) + tokens).digest()
    assert hashes(cache_salt="", adapter="") == hashes()


def test_an_input_is_in_the_blocks_that_it_overlaps_and_in_those_behind() -> None:
    plain, image = hashes(), hashes(cache_keys=(CacheKey(4, 8, b"x"),))
    assert [a == b for a, b in zip(plain, image, strict=True)] == [True, False, False, False]
