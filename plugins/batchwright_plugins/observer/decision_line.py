"""The form of a line of a decision log: of what type each of its values is, and how large."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["SIZES", "check_header", "check_line"]

SIZES: Final = {
    "block_size": 1 << 20,
    "num_usable_blocks": 1 << 40,
    "max_num_seqs": 1 << 40,
    "max_num_batched_tokens": 1 << 40,
    "max_model_len": 1 << 40,
}
"""Sizes that a header has, and the most that each may be."""
_MOST_TOKENS: Final = 10_000_000
_MOST_SECONDS: Final = 1e12
_MOST_STEPS: Final = 1 << 53
_END: Final = 2
"""Fewest entries of a request's end in a line."""
_BEGIN: Final = 3
"""Fewest entries of its begin."""
_TEXTS: Final = ("client", "group", "slo_class", "cache_salt", "adapter")
_CONTENTS: Final = re.compile(r"(?:[A-Za-z0-9+/]{8})*+")


def check_header(header: Mapping[str, Any]) -> None:
    """Check the first line of a log.

    Raises:
        ValueError: A value has another type, or is too large.
    """
    for name, most in SIZES.items():
        if type(header.get(name)) is not int:
            raise ValueError(f"is damaged: its header says no {name}")
        if not 0 <= header[name] <= most or (name == "block_size" and not header[name]):
            raise ValueError(f"is damaged: {name} is out of range in its header")
    config = header.get("config", {})
    sections = ("scheduler", "simulation", "plugins", "kv")
    if not isinstance(config, dict) or not all(
        isinstance(config.get(name, {}), dict) for name in sections
    ):
        raise ValueError("is damaged: what its header has as config is no configuration")
    load = config.get("plugins", {}).get("load", [])
    policy = config.get("scheduler", {}).get("policy", "")
    if not isinstance(load, list) or not isinstance(policy, str):
        raise ValueError("is damaged: what its header has as config is no configuration")
    folder = header.get("folder", "")
    if not isinstance(folder, str) or "\0" in folder:
        raise ValueError("is damaged: what its header has as folder is no path")


def check_line(line: Any) -> None:
    """Check a line after the header, as far as it stands for itself.

    Raises:
        ValueError: It is no object, or a value of it has another type or is too large.
    """
    if not isinstance(line, dict):
        raise ValueError("expected an object")
    for key, (is_sound, expected) in _FORMS.items():
        if key in line and not is_sound(line[key]):
            raise ValueError(f"{key}: expected {expected}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_TOKENS


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_MOST_SECONDS <= value <= _MOST_SECONDS


def _is_step(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_STEPS


def _is_reason(value: Any) -> bool:
    return isinstance(value, str)


def _is_contents(value: Any) -> bool:
    return isinstance(value, str) and _CONTENTS.fullmatch(value) is not None


def _is_priority(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_done(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and _is_step(value[0]) and _is_number(value[1])
    )


def _is_begin(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= _BEGIN
        and _is_count(value[0])
        and _is_count(value[1])
        and _is_number(value[2])
        and (len(value) == _BEGIN or _is_fields(value[3]))
    )


def _is_fields(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_contents(value.get("contents", ""))
        and all(isinstance(value.get(name, ""), str) for name in _TEXTS)
        and _is_number(value.get("deadline", 0))
        and _is_priority(value.get("priority", 0))
        and isinstance(value.get("hints", {}), dict)
        and isinstance(value.get("features", []), list)
    )


def _is_end(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= _END
        and all(map(_is_reason, value[:2]))
        and all(map(_is_count, value[2:3]))
        and all(map(_is_contents, value[3:4]))
    )


def _is_grant(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and _is_count(value[0])
        and _is_count(value[1])
        and (_is_count(value[2]) or _is_list(value[2], _is_step))
    )


def _is_stop(value: Any) -> bool:
    return value is None or (
        isinstance(value, list)
        and len(value) == 2
        and (value[0] is None or isinstance(value[0], str))
        and isinstance(value[1], str)
    )


def _is_list(value: Any, is_item: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_item, value))


def _list_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_list(value, is_item)


def _table_of(is_item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(is_item, value.values()))


_FORMS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "step": (_is_step, "the number of a step"),
    "time": (_is_number, "a time in seconds"),
    "done": (_list_of(_is_done), "a list of [step, seconds]"),
    "added": (_table_of(_is_begin), "[prompt tokens, output tokens, seconds, fields] by request"),
    "finished": (_table_of(_is_end), "[reason, detail, output tokens, contents] by request"),
    "admitted": (_table_of(_is_count), "tokens by request"),
    "resumed": (_list_of(_is_reason), "a list of requests"),
    "grants": (_table_of(_is_grant), "[new tokens, scheduled tokens, blocks] by request"),
    "carried": (_is_count, "a number of requests"),
    "left_out": (_list_of(_is_reason), "a list of requests"),
    "preempted": (
        _table_of(lambda value: value is None or isinstance(value, str)),
        "a request or null by request",
    ),
    "waits": (_table_of(_is_reason), "reasons by request"),
    "stop": (_is_stop, "[request or null, reason] or null"),
    "free": (_is_step, "a number of blocks"),
}
