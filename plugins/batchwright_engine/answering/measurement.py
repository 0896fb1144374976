"""Measure an engine on a batch of prompts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from batchwright_engine.answering.batch import ERROR, Batch
from batchwright_engine.machine import measure_limits
from batchwright_engine.signals import Interrupted
from batchwright_plugins.metrics import percentile

if TYPE_CHECKING:
    from batchwright_engine.answering.prompt_line import PromptLine
    from batchwright_engine.engine import Engine
    from batchwright_engine.sections import RunSection

__all__ = ["measure"]

_PERCENTILES: Final = (50, 90, 99)


class _Results:
    """Keep timings and counts of ended requests."""

    fate = "are measured"

    def __init__(self) -> None:
        self.timings: list[Mapping[str, float | None]] = []
        self.num_prompt_tokens = 0
        self.num_output_tokens = 0

    def add(self, index: int, result: Mapping[str, Any]) -> None:
        self.timings.append(result["timings"])
        self.num_prompt_tokens += result["counts"]["num_prompt_tokens"] or 0
        self.num_output_tokens += result["counts"]["num_output_tokens"]

    def close(self, *, is_complete: bool = True) -> str:
        return ""


def measure(engine: Engine, lines: Sequence[PromptLine], section: RunSection) -> dict[str, Any]:
    """Answer prompts once to warm up, and once more to be measured.

    The two runs have cache salts of their own: neither finds what the other cached.

    Args:
        engine: An engine with nothing to do.
        lines: The prompts.
        section: Form of the prompts.

    Returns:
        Figures: rates in tokens a second, times in seconds, shares of the time of all
        steps; ``limits`` are what the executor says the machine allows.

    Raises:
        Interrupted: A signal ended it.
    """
    _run(Batch(engine, _salted(lines, "warm-up"), section, _Results()))
    phases, results = engine.phases, _Results()
    before, first_step = dict(phases.seconds), phases.num_steps
    batch = Batch(engine, _salted(lines, "measured"), section, results)
    cpu = time.process_time()
    _run(batch)
    cpu = time.process_time() - cpu
    spent = {name: seconds - before[name] for name, seconds in phases.seconds.items()}
    total = sum(spent.values()) or 1.0
    seconds = batch.seconds or 1.0
    num_tokens = results.num_prompt_tokens + results.num_output_tokens
    return {
        "model": engine.model.name,
        "notes": list(engine.model.notes),
        "attention": engine.model.attention,
        "requests": len(lines),
        "failed": batch.num_failed,
        "errors": batch.reasons[ERROR],
        "first_failure": batch.first_detail,
        "prompt_tokens": results.num_prompt_tokens,
        "output_tokens": results.num_output_tokens,
        "seconds": batch.seconds,
        "cpu_seconds": cpu,
        "output_tokens_per_second": results.num_output_tokens / seconds,
        "total_tokens_per_second": num_tokens / seconds,
        "ttft": _percentiles(results, "ttft_s"),
        "tpot": _percentiles(results, "tpot_s"),
        "steps": phases.num_steps - first_step,
        "shares": {name.replace(" ", "_"): value / total for name, value in spent.items()},
        "limits": _limits(engine, len(lines)),
    }


def _run(batch: Batch) -> None:
    """Run a batch to its end: an incomplete one has no figures.

    Raises:
        Interrupted: A signal ended it.
    """
    batch.run()
    if batch.stopped_by is not None:
        raise Interrupted(batch.stopped_by)


def _salted(lines: Sequence[PromptLine], run: str) -> list[PromptLine]:
    def salt(line: PromptLine) -> str:
        return f"{run} {line.fields.get('cache_salt') or ''}"

    return [attrs.evolve(line, fields={**line.fields, "cache_salt": salt(line)}) for line in lines]


def _percentiles(results: _Results, name: str) -> dict[str, float | None]:
    values = sorted(t[name] for t in results.timings if t.get(name) is not None)  # type: ignore[type-var]
    return {f"p{share}": percentile(values, share) for share in _PERCENTILES}  # type: ignore[arg-type]


def _limits(engine: Engine, num_prompts: int) -> dict[str, float]:
    rows = min(num_prompts, engine.scheduler.sizes.max_num_seqs)
    return {"rows": rows, **measure_limits(engine, rows)}
