"""Data of a decision log beyond decisions, so that the run can be repeated."""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import define

if TYPE_CHECKING:
    from batchwright.config import Config
    from batchwright.context import Sizes
    from batchwright.request_view import RequestView

__all__ = ["DIGEST_LETTERS", "Contents", "Written", "blocks_of", "deciding", "fields_of"]

_DIGEST_SIZE: Final = 6
"""Bytes of a block's digest."""
DIGEST_LETTERS: Final = 8
"""The same in base64."""
_MADE: Final = 1 << 31
"""Token ids from here on say which block a replay has made them for."""

_SECTIONS: Final = ("scheduler", "kv", "plugins")
_SIMULATION: Final = ("estimator", "oracle_estimator")
_KINDS: Final = (
    "policy",
    "victim",
    "preemption",
    "predictor",
    "estimator",
    "kv",
    "hasher",
    "eviction",
)
_LISTS: Final = ("gate", "control", "limit", "resource", "feature")
_FIELDS: Final = ("client", "group", "slo_class", "deadline", "cache_salt", "adapter")


def deciding(config: Config, limits: Sizes) -> dict[str, Any]:
    """Return the options that affect decisions, as the table of a TOML file.

    Args:
        config: The configuration.
        limits: The sizes that were found; they stand for what depends on the model.

    Returns:
        Sections without what is default, options of components, and lists of components.
    """
    table: dict[str, Any] = {name: _changed(getattr(config, name)) for name in _SECTIONS}
    table["model"] = {"max_model_len": limits.max_model_len}
    table["kv"] = {**table["kv"], "num_blocks": limits.num_blocks}
    table["kv"].pop("memory", None)
    simulation = _changed(config.sections()["simulation"])
    table["simulation"] = {key: simulation[key] for key in _SIMULATION if key in simulation}
    for kind in _KINDS:
        if config.options.get(kind):
            table[kind] = {**table.get(kind, {}), **config.options[kind]}
    for kind in _LISTS:
        table[kind] = [{"use": use.name, **use.options} for use in getattr(config, kind)]
    return {key: value for key, value in table.items() if value or key == "gate"}


def _changed(section: Any) -> dict[str, Any]:
    """The values of a section that are not its defaults.

    A default that follows from another value, as that of ``max_num_scheduled_tokens`` does
    from ``max_num_batched_tokens``, is left out, so that it follows when that is overridden.
    """
    kind = type(section)
    defaults = attrs.asdict(kind(), recurse=False)
    values = attrs.asdict(section, recurse=False)
    changed = {key: value for key, value in values.items() if value != defaults[key]}
    for field in attrs.fields(kind):
        if getattr(field.default, "takes_self", False) and field.name in changed:
            rest = {key: value for key, value in changed.items() if key != field.name}
            if getattr(kind(**rest), field.name) == changed[field.name]:
                changed = rest
    return changed


def fields_of(request: RequestView) -> dict[str, Any]:
    """Fields of a request that were given, and which features it speaks to."""
    given = {key: getattr(request, key) for key in _FIELDS}
    fields = {key: value for key, value in given.items() if value is not None}
    features = [*request.features, *(["cache_keys"] if request.cache_keys else [])]
    others = {"priority": request.priority, "hints": dict(request.hints), "features": features}
    return fields | {key: value for key, value in others.items() if value}


@define
class Written:
    """Digests of a request that are written.

    Args:
        num_blocks: Blocks whose digests are written.
        digest: The last one.
    """

    num_blocks: int = 0
    digest: bytes = b""


class Contents:
    """Digests of full blocks of tokens, each of its block and all before it.

    How far those of a request are written is kept with it, as ``Written``.

    Args:
        block_size: Tokens a block.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size

    def of_prompt(self, request: RequestView, written: Written) -> str:
        """Those of a prompt."""
        return self._digests(request, written, request.num_prompt_tokens)

    def of_outputs(self, request: RequestView, written: Written) -> str:
        """Those of the blocks that were filled since the prompt's were asked for."""
        return self._digests(request, written, request.num_tokens)

    def _digests(self, request: RequestView, written: Written, num_tokens: int) -> str:
        begin, digest = written.num_blocks, written.digest
        end = num_tokens // self._block_size
        tokens = request.token_bytes(begin * self._block_size, end * self._block_size)
        size = 4 * self._block_size
        digests = []
        for start in range(0, len(tokens), size):
            block = tokens[start : start + size]
            digest = _said(block) or blake2b(digest + block, digest_size=_DIGEST_SIZE).digest()
            digests.append(digest)
        written.num_blocks, written.digest = end, digest
        return b64encode(b"".join(digests)).decode()


def blocks_of(contents: str, block_size: int) -> Iterator[array[int]]:
    """Make blocks of tokens of which digests say the same as they said of others.

    The first two tokens of a block say its digest, so that its log has it again.

    Args:
        contents: Digests, as a log has them.
        block_size: Tokens a block.
    """
    digests = b64decode(contents)
    for start in range(0, len(digests), _DIGEST_SIZE):
        digest = int.from_bytes(digests[start : start + _DIGEST_SIZE], "little")
        block = array("I", [_MADE]) * block_size
        block[:2] = array("I", [_MADE + digest % _MADE, _MADE + digest // _MADE])[:block_size]
        yield block


def _said(block: bytes) -> bytes | None:
    """The digest that a made block says; None if it is none."""
    first, second = (int.from_bytes(block[at : at + 4], "little") for at in (0, 4))
    if first < _MADE or second < _MADE:
        return None
    digest = first - _MADE + (second - _MADE) * _MADE
    return digest.to_bytes(8, "little")[:_DIGEST_SIZE]
