"""The sections that the scheduler reads: every option, its default, its documentation."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, ClassVar, Final, Literal

from attrs import Factory, frozen

from batchwright import default_plugins as defaults
from batchwright.option import option

DEFAULT_MAX_MODEL_LEN: Final = 8192
DEFAULT_MAX_NUM_SEQS: Final = 256
DEFAULT_NUM_BLOCKS: Final = 1024

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B\s*")


class Section:
    """A section that a package beside the core declares: an attrs class of options.

    ``batchwright.default_plugins.SECTIONS`` lists it; ``Config.section`` returns it.
    """

    name: ClassVar[str]
    """Its name in the TOML file."""
    components: ClassVar[Mapping[str, str]] = {}
    """Options that name one more component of a kind, or ``auto``, with that kind."""
    files_read: ClassVar[Mapping[str, str]] = {}
    """Options that are the path of a file which is read, with words for that file."""


@cache
def section_types() -> Mapping[str, type[Any]]:
    """Return the classes of all sections by name, in the order of the reference."""
    return {name: resolve_name(target) for name, target in defaults.SECTIONS.items()}


def _num_bytes(text: str) -> int:
    """Read a size: ``B``, ``kB`` to ``TB`` (powers of 1000), ``KiB`` to ``TiB`` (of 1024)."""
    match = _SIZE.fullmatch(text.replace("k", "K"))
    if match is None:
        raise ValueError(f"expected a size such as '1 GiB' or '800 MB', got {text!r}")
    number, base = float(match[1]), 1024 if match[3] else 1000
    if number > sys.maxsize:
        raise ValueError(f"expected a size that a machine can have, got {text!r}")
    return int(number * base ** (" KMGT".index(match[2] or " ")))


def _check_size(_instance: Any, _attribute: Any, value: str | None) -> None:
    if value is not None and _num_bytes(value) < 1:
        raise ValueError(f"expected at least one byte, got {value!r}")


@frozen(kw_only=True)
class ModelSection:
    """The model that the executor loads.

    Args:
        path: Local Hugging Face folder, or the name of an embedded model.
        dtype: Type of weights and KV; auto: as the model was stored.
        max_model_len: Longest request, prompt and outputs together.
    """

    path: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = option(
        None,
        unit="tokens",
        ge=2,
        default_text=f"the model's; {DEFAULT_MAX_MODEL_LEN} without a model",
    )


@frozen(kw_only=True)
class SchedulerSection:
    """Sizes of a step and the components that decide about it.

    Args:
        use: Whole scheduler.
        policy: Order in which requests are served.
        max_num_batched_tokens: Most tokens computed in one step, prefill and decode alike.
        max_num_scheduled_tokens: Most tokens scheduled in one step, if fewer than
            max_num_batched_tokens.
        max_num_seqs: Most requests running at a time.
        enable_chunked_prefill: True if a prompt may be computed over several steps.
        victim: Choice of the request that is preempted when blocks run out; auto: the policy's
            default.
        preemption: Treatment of the KV of a preempted request.
        predictor: Estimator of output lengths, for components that ask.
        estimator: Estimator of step times, for components that ask.
        pipeline_depth: Steps that may be planned before the first of them is done; over 1, a
            step is computed while the next one is planned, if the executor supports it.
        max_policy_preemptions: Most preemptions of a request by the policy; then it is immune.
        group_time_to_live: Time that a group is remembered after its last request.
        scan_window: Waiting requests that one step may pass over because a gate defers them.
        backfill: Waiting requests that a step still tries behind the first that gets no blocks;
            0: none.
        max_bypasses: Most requests admitted past one that gets no blocks, over all of its wait.
        max_futile_preemptions: Preemptions of a request without an output between them, after
            which it is admitted only if all of its known tokens fit.
        num_lookahead_tokens: Slots allocated beyond the scheduled tokens, for drafts; 0: none.
        seed: Seed of all streams of random numbers.
        stall_steps: Steps without scheduled tokens, though a request would fit, before the
            progress guard plans one.
        max_component_faults: Faults in a row of a component, not about a request, that end the run.
        slow_component_seconds: Time of a component's call above which a warning with its name
            and time is given; it costs two readings of the clock a call.
        compat: Engine whose decisions are matched even where ours are better, except for
            endless loops.
    """

    use: str = defaults.DEFAULT_SCHEDULER
    policy: str = defaults.DEFAULT_POLICY
    max_num_batched_tokens: int = option(2048, unit="tokens", ge=1)
    max_num_scheduled_tokens: int = option(
        Factory(lambda self: self.max_num_batched_tokens, takes_self=True),
        unit="tokens",
        ge=1,
        default_text="max_num_batched_tokens",
    )
    max_num_seqs: int = option(
        Factory(lambda s: min(DEFAULT_MAX_NUM_SEQS, s.max_num_batched_tokens), takes_self=True),
        unit="requests",
        ge=1,
        default_text=f"{DEFAULT_MAX_NUM_SEQS}, or max_num_batched_tokens if that is less",
    )
    enable_chunked_prefill: bool = True
    victim: str = defaults.AUTO
    preemption: str = defaults.DEFAULT_PREEMPTION
    predictor: str = defaults.DEFAULT_PREDICTOR
    estimator: str = defaults.DEFAULT_ESTIMATOR
    pipeline_depth: int = option(1, unit="steps", ge=1)
    max_policy_preemptions: int = option(3, ge=0)
    group_time_to_live: float = option(600.0, unit="seconds", ge=0)
    scan_window: int = option(64, unit="requests", ge=1)
    backfill: int = option(0, unit="requests", ge=0)
    max_bypasses: int = option(64, unit="requests", ge=0)
    max_futile_preemptions: int = option(3, unit="preemptions", ge=1)
    num_lookahead_tokens: int = option(0, unit="tokens", ge=0)
    seed: int = option(0, ge=0)
    stall_steps: int = option(3, unit="steps", ge=1)
    max_component_faults: int = option(3, unit="faults", ge=1)
    slow_component_seconds: float | None = option(
        None, unit="seconds", ge=0, default_text="calls are not timed"
    )
    compat: Literal["none", "vllm-0.32"] = "none"


@frozen(kw_only=True)
class KVSection:
    """The KV cache.

    Args:
        manager: Component that keeps the blocks.
        block_size: Tokens that a block holds.
        num_blocks: Size of the cache in blocks, the null block included. Not together
            with memory.
        memory: Size of the cache in bytes, e.g. '1 GiB'; needs a model. Not together
            with num_blocks.
        enable_prefix_caching: True if requests share the blocks of equal prefixes.
        hasher: Hash that identifies a block's content.
        eviction: Order in which cached blocks are given up.
    """

    manager: str = defaults.DEFAULT_KV
    block_size: int = option(16, unit="tokens", ge=1, le=65_536)
    num_blocks: int | None = option(
        None, unit="blocks", ge=2, default_text=f"{DEFAULT_NUM_BLOCKS}, unless memory is set"
    )
    memory: str | None = option(None, check=_check_size)
    enable_prefix_caching: bool = True
    hasher: str = defaults.DEFAULT_HASHER
    eviction: str = defaults.DEFAULT_EVICTION

    @property
    def memory_bytes(self) -> int | None:
        """``memory`` in bytes."""
        return None if self.memory is None else _num_bytes(self.memory)


@frozen(kw_only=True)
class PluginsSection:
    """Plugins beside the installed ones.

    Args:
        load: Single-file plugins: paths of .py files, relative to the TOML file.
        disable: Plugins or distributions that are left out, by name.
        accept_degraded: Capabilities that the runtime may support in part; see ``batchwright
            plugins --runtime``.
    """

    load: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    accept_degraded: tuple[str, ...] = ()
