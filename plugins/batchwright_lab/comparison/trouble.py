"""Faults of cells, and what else is wrong with them, in words."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from batchwright_lab.comparison.targets import Targets
from batchwright_lab.simulation.simulation import STUCK

__all__ = ["fault_of", "has_failed", "notes_of", "nothing_left", "trouble_of", "unknown_classes"]

_BLAMED: Final = re.compile(r"\w+\(\) (?:raised|returned) ")
"""The core's words for a component that failed on a request."""
_ENDED_BADLY: Final = ("error", "abort")
_UNSERVED: Final = ("refused", *_ENDED_BADLY)
Columns = Mapping[str, Sequence[Any]]


def fault_of(record: Mapping[str, Any]) -> str:
    """The fault that ended a cell, or that of a component on its requests; empty if none."""
    fault = record["fault"]
    if fault:
        return f"{fault['kind']}: {fault['message']}"
    return _failures(record["requests"])


def trouble_of(record: Mapping[str, Any]) -> str:
    """The trouble that is reported of a cell as soon as it ends: a fault, or no served request."""
    text = fault_of(record)
    ends = () if text else record["requests"]["end"]
    if ends and all(end in _UNSERVED for end in ends):
        first = _ends(record["requests"], _UNSERVED)[0]
        return f"none of {len(ends):,} requests was served, the first: {first}"
    return text


def has_failed(record: Mapping[str, Any]) -> bool:
    """Return True if a cell has trouble: a fault, an error, or requests that wait for ever."""
    return (
        bool(trouble_of(record))
        or "error" in record["requests"]["end"]
        or record["stopped_by"] == STUCK
    )


def notes_of(
    record: Mapping[str, Any], columns: Columns, figures: Mapping[str, Any], starved_after: float
) -> Iterator[str]:
    """Notes on a cell that ran to its end: requests that were starved or not served, fall-backs.

    Args:
        record: See ``run_cell``.
        columns: The columns of its requests, without those of the warm-up.
        figures: Its figures.
        starved_after: Seconds for which a request may be passed over.
    """
    starved, failed = figures["starved"], figures["failed"]
    if starved:
        longest = figures["passed_over_max"]
        yield (
            f"starves {starved:.0f} of {figures['arrived']:.0f} requests: passed over for more "
            f"than {starved_after:g} s, one for {longest:.1f} s"
        )
    for where, count in record["strikes"].items():
        yield f"{where} failed {count} times; those steps fell back"
    num_faults, counted = record.get("num_component_faults", 0), sum(record["strikes"].values())
    if num_faults > counted:
        yield f"components failed {num_faults - counted} times on a request"
    if failed:
        yield (
            f"{failed:.0f} of {figures['arrived']:.0f} requests were not served "
            f"({_ends(columns)[0]}); latencies are those of the others"
        )
    if figures["refused"]:
        yield (
            f"{figures['refused']:.0f} of {figures['arrived']:.0f} requests were refused "
            f"({_ends(columns, ('refused',))[0]}); latencies are those of the others"
        )
    if record["stopped_by"]:
        yield f"stopped before its end: {record['stopped_by']}"


def unknown_classes(targets: Targets, known: Container[str | None]) -> Iterator[str]:
    """Notes on targets of a class that no request has: misspelt, they are always met."""
    for name in targets.by_class:
        if name is not None and name not in known:
            yield f"a target is for slo_class {name!r}, which no request has"


def nothing_left(num_all: int, num_counted: int, warmup: float) -> Iterator[str]:
    """A note if every request belongs to the warm-up."""
    if num_all and not num_counted:
        yield f"all {num_all:,} requests arrived before --warmup {warmup:g}"


def _failures(columns: Columns) -> str:
    """The faults of a component that ended requests; empty if there are none."""
    blamed = [detail for detail in _ends(columns) if _BLAMED.search(detail)]
    if not blamed:
        return ""
    return f"{len(blamed)} of {len(columns['end'])} requests failed, the first: {blamed[0]}"


def _ends(columns: Columns, kinds: Container[str] = _ENDED_BADLY) -> list[str]:
    """Reasons of requests that ended in these ways."""
    ends = zip(columns["end"], columns["detail"], strict=True)
    return [detail for end, detail in ends if end in kinds]
