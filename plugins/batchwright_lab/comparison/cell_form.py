"""The form of what is kept of a cell: a file of it may be damaged, or written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["check_cell"]

_MOST: Final = 1e15
_TIMES: Final = ("scheduled", "first_token", "finish")
_COUNTS: Final = (
    "prompt_tokens",
    "output_tokens",
    "recomputed_tokens",
    "preemptions",
    "displacements",
)
_TEXTS: Final = ("end", "detail")
_OPTIONAL_TEXTS: Final = ("client", "slo_class")
_SAMPLES: Final = ("time", "waiting", "running", "kv")
_TOTALS: Final = ("usable_blocks", "most_used_blocks", "scheduled_tokens")


def check_cell(record: Any) -> None:
    """Check what a file says of a cell, as far as it is read.

    Raises:
        ValueError: Something is missing, or is of another type; names its key.
    """
    _check(isinstance(record, dict), "expected an object")
    for key in ("policy", "variation"):
        _check(isinstance(record.get(key), str), f"{key}: expected a string")
    _check("rate" in record and _is_number(record["rate"], optional=True), "rate: no number")
    _check(_is_count(record.get("seed")), "seed: expected an integer")
    for key in ("toml", "step_times"):
        _check(isinstance(record.get(key, ""), str), f"{key}: expected a string")
    for key in ("components", "versions"):
        found = record.get(key, {})
        is_sound = isinstance(found, dict) and all(isinstance(v, str) for v in found.values())
        _check(is_sound, f"{key}: expected names")
    _check(_is_list_of_texts(record.get("oracles", [])), "oracles: expected a list of names")
    _check("fault" in record, "fault: is missing")
    fault = record["fault"]
    if fault is None:
        _check_outcome(record)
        return
    is_sound = isinstance(fault, dict) and all(
        isinstance(fault.get(key), str) for key in ("kind", "message")
    )
    _check(is_sound, "fault: expected kind and message")


def _check_outcome(record: Mapping[str, Any]) -> None:
    _check(_is_number(record.get("end_time")), "end_time: expected a number")
    _check(isinstance(record.get("stopped_by"), str), "stopped_by: expected a string")
    for key in _TOTALS:
        _check(_is_count(record.get(key)), f"{key}: expected an integer")
    _check(_is_count(record.get("num_component_faults", 0)), "num_component_faults: no integer")
    strikes = record.get("strikes")
    is_sound = isinstance(strikes, dict) and all(map(_is_count, strikes.values()))
    _check(is_sound, "strikes: expected counts by component")
    _check_requests(record.get("requests"))
    _check_series(record.get("series"))


def _check_requests(columns: Any) -> None:
    names = ("arrival", "cached_tokens", *_TIMES, *_COUNTS, *_TEXTS, *_OPTIONAL_TEXTS)
    _check_columns("requests", columns, names)
    for name, column in columns.items():
        where = f"requests.{name}"
        if name in _COUNTS:
            _check(all(map(_is_count, column)), f"{where}: expected integers")
        elif name == "arrival":
            _check(all(map(_is_number, column)), f"{where}: expected numbers")
        elif name in (*_TIMES, "cached_tokens"):
            sound = all(_is_number(value, optional=True) for value in column)
            _check(sound, f"{where}: expected numbers or null")
        elif name in _TEXTS:
            _check(_is_list_of_texts(column), f"{where}: expected strings")
        elif name in _OPTIONAL_TEXTS:
            sound = all(value is None or isinstance(value, str) for value in column)
            _check(sound, f"{where}: expected strings or null")


def _check_series(series: Any) -> None:
    _check(isinstance(series, dict), "series: expected columns")
    samples = {name: column for name, column in series.items() if name in _SAMPLES}
    _check_columns("series", samples, _SAMPLES)
    for name, column in samples.items():
        _check(all(map(_is_number, column)), f"series.{name}: expected numbers")
    service, backlog = (series.get(name) for name in ("service", "backlog"))
    for name, found in (("service", service), ("backlog", backlog)):
        _check(isinstance(found, dict), f"series.{name}: expected columns by client")
        _check_columns(f"series.{name}", {"time": samples["time"], **found}, ("time",))
        for column in found.values():
            _check(all(map(_is_number, column)), f"series.{name}: expected numbers")
    _check(set(service) <= set(backlog), "series.backlog: lacks a client")


def _check_columns(where: str, columns: Any, names: tuple[str, ...]) -> None:
    """Check that there are columns of these names, all as long."""
    is_table = isinstance(columns, dict) and all(isinstance(c, list) for c in columns.values())
    _check(is_table, f"{where}: expected columns")
    missing = next((name for name in names if name not in columns), None)
    _check(missing is None, f"{where}.{missing}: is missing")
    _check(len({len(column) for column in columns.values()}) <= 1, f"{where}: columns of a length")


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_number(value: Any, *, optional: bool = False) -> bool:
    if value is None:
        return optional
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and bool(-_MOST <= value <= _MOST)
    )


def _check(is_sound: bool, problem: str) -> None:
    if not is_sound:
        raise ValueError(problem)
