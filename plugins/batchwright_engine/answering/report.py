"""The report of a run: a few lines before it, a table and some answers after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from batchwright_engine.answering.instruments import SHADOW, STATS
from batchwright_engine.text_table import aligned

if TYPE_CHECKING:
    from rich.console import Console

    from batchwright.config import Config
    from batchwright.protocols import ModelInfo
    from batchwright_engine.answering.batch import Batch
    from batchwright_engine.answering.prompt_line import PromptLine
    from batchwright_engine.engine import Engine

__all__ = [
    "attention_line",
    "choices",
    "decision_row",
    "duration",
    "ends_row",
    "faults_rows",
    "listed",
    "observer_rows",
    "print_figures",
    "print_report",
    "served_rows",
    "shadows_of",
    "sizes",
    "start_lines",
    "stats_of",
]

_WIDTH = 23  # of the column of names


def start_lines(engine: Engine, num_prompts: int) -> Iterator[str]:
    """Say what runs: the model and its place, the pool, the components that decide."""
    model = engine.model
    yield "; ".join([model.name, *model.notes])
    yield f"{num_prompts} prompts, {sizes(engine)}"
    yield f"{choices(engine)}, {attention_line(model)}"


def sizes(engine: Engine) -> str:
    """Return a text of the sizes of the engine."""
    limits = engine.scheduler.sizes
    return (
        f"at most {limits.max_num_seqs} at a time and "
        f"{limits.max_num_batched_tokens} tokens a step, in "
        f"{engine.scheduler.kv_manager.num_usable_blocks} KV blocks of {limits.block_size} tokens"
    )


def choices(engine: Engine) -> str:
    """Return the components that decide, in a line."""
    components = engine.scheduler.components
    gates = ", ".join(gate.name for gate in components.gates) or "none"
    return (
        f"scheduler {engine.scheduler.name}, policy {components.policy.name}, gates {gates}, "
        f"victim {components.victim.name}, preemption {components.preemption.name}"
    )


def attention_line(model: ModelInfo) -> str:
    """Say which attention backend is used, and why the others are not."""
    reasons: dict[str, list[str]] = {}
    for name, reason in model.attention_others:
        reasons.setdefault(reason, []).append(name)
    others = "; ".join(f"not {', '.join(names)}: {reason}" for reason, names in reasons.items())
    return f"attention {model.attention or 'none'}" + (f" ({others})" if others else "")


def print_report(
    console: Console, batch: Batch, summaries: Mapping[str, Any] | None = None
) -> None:
    """Print the figures of a batch, what observers say, and its first answers."""
    print_figures(console, _rows(batch, summaries or {}))
    # Programs that read a pipe wrap lines as they like.
    is_piped = not console.is_terminal
    for index in sorted(batch.answers):
        question, answer = batch.prompts[index], batch.answers[index]
        console.print()
        console.print(Text(f"> {_question(question)}", style="bold"), soft_wrap=is_piped)
        console.print(Text(answer.text.strip()), soft_wrap=is_piped)


def print_figures(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print a table of two columns."""
    for line in aligned(rows, gap=0, least=_WIDTH):
        console.print(Text(line), soft_wrap=True)


def _rows(batch: Batch, summaries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield ends_row(batch.reasons, len(batch.prompts))
    if 0 < batch.num_failed < len(batch.prompts):  # that all did is an error of the run
        yield "first failure", batch.first_detail
    yield "time", f"{batch.seconds:.1f} s"
    yield from decision_row(batch.engine)
    yield from faults_rows(batch.engine)
    yield from served_rows(batch.engine)
    yield from observer_rows(summaries)


def decision_row(engine: Engine) -> Iterator[tuple[str, str]]:
    """Wall-clock time of the scheduler's calls a planned step; nothing if none was planned."""
    decisions = engine.decisions
    if decisions.seconds_mean is not None:
        text = f"{duration(decisions.seconds_mean)} (wall clock, {decisions.num_steps:,} steps)"
        yield "time a decision", text


def duration(seconds: float) -> str:
    """A short time, with three digits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def observer_rows(summaries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Summaries of observers, but for those that have rows of their own."""
    for name, said in summaries.items():
        if not name.startswith((STATS, SHADOW)):
            yield name, _told(said)


def _told(said: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_plain(value)}" for key, value in said.items())


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_told(value)})" if value else "none"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def listed(summaries: Mapping[str, Any], config: Config, added: Iterable[str]) -> dict[str, Any]:
    """The summaries of observers but for those that a command adds, unless the TOML lists them.

    Args:
        summaries: By name of the observer; see ``Scheduler.summaries``.
        config: The configuration.
        added: Names of observers that the command adds.
    """
    hidden = set(added).difference(use.name for use in config.observer)
    return {name: said for name, said in summaries.items() if name not in hidden}


def ends_row(reasons: Counter[str], total: int) -> tuple[str, str]:
    """Return the number of ended requests, and their ends."""
    listed = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return "requests", f"{reasons.total()} of {total}" + (f" ({listed})" if listed else "")


def faults_rows(engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield the number of faults of components; nothing if there are none."""
    number = engine.scheduler.num_component_faults
    if number:
        where = ", ".join(f"{n} in {place}" for place, n in engine.scheduler.fault_counts.items())
        yield "component faults", f"{number:,}" + (f" ({where})" if where else "")


def served_rows(engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield the results of the observer ``stats``; nothing if there is none."""
    stats = stats_of(engine)
    if not stats:
        return
    seconds = stats["duration_s"] or 1.0
    output, prompt = stats["output_tokens"], stats["prefix_queried_tokens"]
    yield "output tokens/s", f"{output / seconds:,.1f} ({output:,} tokens)"
    yield ("total tokens/s", f"{(prompt + output) / seconds:,.1f} (with {prompt:,} prompt tokens)")
    yield "time to first token", _percentiles(stats, "ttft", 1, "s")
    yield "time per output token", _percentiles(stats, "tpot", 1000, "ms")
    usable = engine.scheduler.kv_manager.num_usable_blocks
    peak = stats["kv_peak_ratio"] or 0.0
    yield "KV peak", f"{peak * usable:.0f} of {usable} blocks ({peak:.0%})"
    yield "preemptions", f"{stats['preemptions']:,}"
    yield "recomputed tokens", _part(stats, "recomputed_tokens", "recompute_tax_ratio")
    yield "prefix hits", _part(stats, "prefix_hit_tokens", "prefix_hit_ratio")
    for found in shadows_of(engine):
        yield f"shadow {found['policy']}", _agreement(found)


_OF = {"recompute_tax_ratio": "of all computed tokens", "prefix_hit_ratio": "of all prompt tokens"}


def _part(stats: Mapping[str, Any], name: str, ratio: str) -> str:
    return f"{stats[name]:,} tokens ({stats[ratio] or 0.0:.1%} {_OF[ratio]})"


def _percentiles(stats: Mapping[str, Any], name: str, factor: float, unit: str) -> str:
    shown = (
        f"p{percent} {stats[f'{name}_p{percent}_s'] * factor:,.2f} {unit}"
        for percent in (50, 90, 99)
        if stats[f"{name}_p{percent}_s"] is not None
    )
    return ", ".join(shown) or "none"


def stats_of(engine: Engine) -> Mapping[str, Any]:
    """Return the results of the observer of that name; empty if there is none."""
    observers = engine.scheduler.components.observers
    found = [observer for observer in observers if observer.name == STATS]
    return found[0].summary() if found else {}


def shadows_of(engine: Engine) -> list[Mapping[str, Any]]:
    """Return the results of shadow policies."""
    observers = engine.scheduler.components.observers
    return [observer.summary() for observer in observers if observer.name == SHADOW]


def _agreement(shadow: Mapping[str, Any]) -> str:
    """Return the agreement of a shadow, in a line."""
    words = {"same_choices_ratio": "choices", "same_admissions_ratio": "admissions"}
    words["same_grants_ratio"] = "grants"
    told = [f"same {w} {shadow[k]:.0%}" for k, w in words.items() if shadow[k] is not None]
    tau = shadow["order_tau"]
    told += [] if tau is None else [f"order of the queue {tau:+.2f} (tau)"]
    told += [f"would have preempted some in {shadow['yield_steps']} steps"] * (
        shadow["yield_steps"] > 0
    )
    told += [f"left out: {shadow['failure']}"] if shadow["failure"] else []
    return ", ".join(told) or "nothing to compare"


def _question(line: PromptLine) -> str:
    """The prompt as a person would recognize it."""
    source: Any = line.prompt
    if isinstance(source, str):
        return source
    if isinstance(source[-1], int):
        return f"{line.request_id} ({len(source)} tokens)"
    return str(source[-1]["content"])
