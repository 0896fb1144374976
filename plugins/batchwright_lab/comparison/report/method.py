"""The method of a comparison: enough to repeat it, and to doubt it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from batchwright_lab.comparison.measure import MEASURES
from batchwright_lab.comparison.recorder import OUTPUT_WEIGHT
from batchwright_lab.comparison.steadiness import FEWEST_IN_TAIL, GROWTH, LEAST_GROWTH

if TYPE_CHECKING:
    from batchwright_lab.comparison.outcome import Outcome
    from batchwright_lab.comparison.report.setup import Setup
    from batchwright_lab.comparison.summary import Summary

__all__ = ["configurations", "facts", "left_out", "meanings", "oracle_stamp"]

_MOST_FILES: Final = 6


def oracle_stamp(outcomes: Iterable[Outcome]) -> str:
    """Return the components with more knowledge than in service; empty if there are none."""
    found = {
        f"{o.policy}: {', '.join(o.record['oracles'])}" for o in outcomes if o.record.get("oracles")
    }
    return "; ".join(sorted(found))


def left_out(outcomes: Iterable[Outcome], setup: Setup) -> str:
    """The requests of the warm-up, which are in no figure; empty if there is no warm-up."""
    if not setup.warmup:
        return ""
    found = list(outcomes)
    num = sum(outcome.num_left_out for outcome in found)
    counted = sum(int(outcome.figures.get("arrived") or 0) for outcome in found)
    return (
        f"Warm-up: {num:,} of {num + counted:,} requests arrived before {setup.warmup:g} s and "
        "are left out of the figures."
    )


def facts(outcomes: Sequence[Outcome], summary: Summary, setup: Setup) -> Iterator[tuple[str, str]]:
    """Name what was run and what it was run with; an empty text says that there is no such."""
    records = [outcome.record for outcome in outcomes]
    yield "command", setup.command
    yield "cells", f"{summary.num_done} of {summary.num_cells} done"
    rates = ", ".join("the workload's" if r is None else f"{r:g}" for r in summary.rates)
    yield "rates", f"{rates} requests/s"
    are_alike = len(setup.seeds) > 1 and not summary.seeds_differ
    same = "; nothing here depends on chance, so seeds are alike" if are_alike else ""
    yield "seeds", ", ".join(map(str, setup.seeds)) + same
    yield "limit", _all(records, lambda r: f"{r['limit']:,} requests" if r.get("limit") else "")
    yield "workload", _component(records, "workload")
    yield "step times", _all(records, lambda record: record.get("step_times", ""))
    yield "executor", _component(records, "executor")
    yield "predictor", _component(records, "predictor")
    yield "knows too much", oracle_stamp(outcomes)
    yield "targets", str(setup.targets)
    yield "warm-up", left_out(outcomes, setup).removeprefix("Warm-up: ")
    yield "invariants", _all(records, lambda r: "checked at every step" if r.get("checked") else
                             "checked at the end of each cell")  # fmt: skip
    yield "versions", _all(records, lambda r: ", ".join(
        f"{name} {version}" for name, version in r.get("versions", {}).items()))  # fmt: skip
    yield "policy code", _policy_code(outcomes)
    yield "chance", _chance(any(record.get("closed_loop") for record in records))


def _chance(is_closed_loop: bool) -> str:
    """Return the random streams that policies share with one seed."""
    drawn = (
        "arrivals, lengths, prefixes, caps and a policy's own lots are drawn from streams of "
        "their own that depend on the seed alone: with a seed, "
    )
    if is_closed_loop:
        return drawn + (
            "the n-th request has the same lots under every policy. When it arrives, and whose "
            "it is, depends on what was served before it: this is a closed loop."
        )
    return drawn + (
        "every policy gets the same requests at the same times, and a higher rate is the same "
        "sequence, faster."
    )


def _policy_code(outcomes: Iterable[Outcome]) -> str:
    """Digest of each policy's file and of the modules that it imports, with their names."""
    told = {o.policy: o.record["policy_code"] for o in outcomes if "policy_code" in o.record}
    return "; ".join(
        f"{policy} {code['digest']} ({_listed(code['files'])})" for policy, code in told.items()
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_FILES
    return ", ".join([*names[:_MOST_FILES], *([f"{more} more"] if more > 0 else [])])


def _component(records: Iterable[Any], kind: str) -> str:
    return _all(records, lambda record: record.get("components", {}).get(kind, ""))


def _all(records: Iterable[Any], get: Any) -> str:
    """Return the values of cells: each once."""
    return "; ".join(dict.fromkeys(filter(None, map(get, records))))


def meanings(setup: Setup) -> Iterator[tuple[str, str]]:
    """Define the words of a page."""
    special = {
        "starved": f"passed over for more than {setup.starved_after:g} s",
        "jain": (
            "(sum of x)\N{SUPERSCRIPT TWO} / (n times the sum of x\N{SUPERSCRIPT TWO}) of the "
            "service a second that clients got while they and another one had requests waiting; "
            f"service is computed prompt tokens and {OUTPUT_WEIGHT} times the output tokens. 1: "
            "all alike; 1/n: one has all; none where there was no contention"
        ),
    }
    for measure in MEASURES.values():
        if not measure.key.endswith(("_p50", "_p90", "_p99")):
            meaning = special.get(measure.key, measure.meaning)
            yield measure.name.removesuffix(" mean"), meaning.removesuffix(", mean")
    span = "; the whole run after the warm-up" if setup.warmup else "; the whole run, nothing cut"
    yield (
        "p50, p90, p99",
        "percentiles of the requests that ended by themselves, interpolated linearly"
        f"{span}{'' if setup.warmup else ' at its ends'}. Rough where fewer than "
        f"{FEWEST_IN_TAIL} requests, over all seeds, lie beyond it",
    )
    yield (
        "a decision",
        "wall-clock time of the scheduler's calls by planned steps, on the machine that ran the "
        "cells, measured when a cell is first run: the one figure that another run does not "
        "repeat",
    )
    yield (
        "transient",
        f"a run in which, on average, more than {GROWTH:g} times as many requests, and at least "
        f"{LEAST_GROWTH} more, wait in the last third of the time in which requests arrive as in "
        "the middle third",
    )


def configurations(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the TOML of each contender, by its label."""
    shown: dict[str, str] = {}
    for outcome in outcomes:
        label = ", ".join(filter(None, [outcome.policy, outcome.variation]))
        if "toml" in outcome.record:
            shown.setdefault(label, outcome.record["toml"])
    return shown
