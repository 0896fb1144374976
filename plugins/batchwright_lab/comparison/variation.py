"""Options that a comparison varies beside the policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from attrs import frozen

from batchwright.exceptions import ConfigError

__all__ = ["Variation", "read_variations"]

_OPTION: Final = "--vary"
_TAKEN: Final = {"scheduler.policy": "--policy", "scheduler.seed": "--seeds"}
_PIECE: Final = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*" | '[^']*' | \[[^\]]*\] | \{[^}]*\} | [^,])+""", re.VERBOSE
)


@frozen
class Variation:
    """Values of the options that vary.

    Args:
        overrides: ``key.path=value`` each, as ``-o`` takes them.
    """

    overrides: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The values with their options' last names; empty if nothing varies.

        The last name of ``scheduler.use`` is ``scheduler``.
        """
        return ", ".join(map(_short, self.overrides))

    @property
    def values(self) -> dict[str, str]:
        """The values by their options' paths."""
        return {key: value for key, _, value in (o.partition("=") for o in self.overrides)}

    def only(self, is_wanted: Callable[[str], bool]) -> Variation:
        """Those of its values whose option is wanted, by the option's path."""
        return Variation(tuple(o for o in self.overrides if is_wanted(o.partition("=")[0])))


def _short(override: str) -> str:
    key, _, value = override.partition("=")
    section, _, name = key.rpartition(".")
    return f"{section.rpartition('.')[2] if name == 'use' else name}={value}"


def read_variations(texts: Sequence[str]) -> list[Variation]:
    """Read ``key.path=VALUE,VALUE,...`` each; what results is every combination.

    A comma within quotes, brackets or braces belongs to the value.

    Raises:
        ConfigError: One has another form, says a value twice, or varies what another one
            or another option of the command does.
    """
    keys = [text.partition("=")[0].strip() for text in texts]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise ConfigError("is varied twice", path=key, source=f"{_OPTION} {texts[index]}")
    return [Variation(tuple(found)) for found in product(*map(_axis, texts))]


def _axis(text: str) -> list[str]:
    key, sign, values = text.partition("=")
    key = key.strip()
    found = list(_split(values))
    if not sign or not key or not found:
        raise ConfigError("expected key.path=VALUE,VALUE,...", source=f"{_OPTION} {text}")
    if key in _TAKEN:
        raise ConfigError(f"is what {_TAKEN[key]} is for", path=key, source=f"{_OPTION} {text}")
    if len(set(found)) < len(found):
        raise ConfigError("says a value twice", path=key, source=f"{_OPTION} {text}")
    return [f"{key}={value}" for value in found]


def _split(values: str) -> Iterator[str]:
    for piece in _PIECE.findall(values):
        if piece.strip():
            yield piece.strip()
