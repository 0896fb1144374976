"""The sections of a configuration: every option, its default, its documentation."""

from __future__ import annotations

import re
import sys
from typing import Any, Final, Literal

from attrs import Factory, frozen

from batchwright import default_plugins as defaults
from batchwright.option import option

DEFAULT_MAX_MODEL_LEN: Final = 8192
DEFAULT_MAX_NUM_SEQS: Final = 256
DEFAULT_NUM_BLOCKS: Final = 1024

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B\s*")


def parse_size(text: str) -> int:
    """Read an amount of memory.

    Args:
        text: A number and ``B``, ``kB`` to ``TB`` (powers of 1000) or ``KiB`` to
            ``TiB`` (powers of 1024), e.g. ``1.5 GiB``.

    Returns:
        Bytes.

    Raises:
        ValueError: It is none.
    """
    match = _SIZE.fullmatch(text.replace("k", "K"))
    if match is None:
        raise ValueError(f"expected a size such as '1 GiB' or '800 MB', got {text!r}")
    number = float(match[1])
    if number > sys.maxsize:
        raise ValueError(f"expected a size that a machine can have, got {text!r}")
    base = 1024 if match[3] else 1000
    return int(number * base ** (" KMGT".index(match[2] or " ")))


def _size(_instance: Any, _attribute: Any, value: str | None) -> None:
    if value is not None and parse_size(value) < 1:
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
        max_num_scheduled_tokens: Most tokens granted in one step, where that is to be
            less than what fits into it.
        max_num_seqs: Most requests running at a time.
        enable_chunked_prefill: Whether a prompt may be computed over several steps.
        victim: Request that is preempted when blocks run out; auto: as the policy prefers.
        preemption: Component that decides about the KV of a preempted request.
        predictor: Estimator of output lengths, for components that ask.
        estimator: Estimator of step times, for components that ask.
        pipeline_depth: Steps that may be planned before the first of them is done; over 1,
            one is computed while the next is planned, if the executor can.
        max_policy_preemptions: Times that a request yields because the policy wishes; then it
            is immune.
        group_time_to_live: Time that a group is remembered after its last request.
        scan_window: Waiting requests that one step may pass over because a gate skipped
            them.
        backfill: Waiting requests behind the first that gets no blocks which a step
            still tries; 0: none.
        max_bypasses: Requests admitted past one that gets no blocks, over all of its wait;
            then none passes it any more.
        max_futile_preemptions: Preemptions of a request without an output between them;
            then it is admitted only if all of its known tokens fit.
        num_lookahead_tokens: Slots allocated beyond the granted ones, for drafts; 0:
            none.
        seed: Seed of every stream of chance.
        stall_steps: Steps in which nothing runs and nothing is scheduled, though
            something would fit, before the progress guard steps in.
        max_component_faults: Faults in a row of a component, on no request's behalf,
            that end the run.
        slow_component_seconds: A component's call that takes longer is reported, with its
            name and time, by a warning; it costs two looks at the clock a call.
        compat: Engine whose decisions are matched even where this one would decide
            better, short of never ending.
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
        enable_prefix_caching: Whether requests share the blocks of equal prefixes.
        hasher: Hash that identifies a block's content.
        eviction: Order in which cached blocks are given up.
    """

    manager: str = defaults.DEFAULT_KV
    block_size: int = option(16, unit="tokens", ge=1, le=65_536)
    num_blocks: int | None = option(
        None, unit="blocks", ge=2, default_text=f"{DEFAULT_NUM_BLOCKS}, unless memory is set"
    )
    memory: str | None = option(None, check=_size)
    enable_prefix_caching: bool = True
    hasher: str = defaults.DEFAULT_HASHER
    eviction: str = defaults.DEFAULT_EVICTION

    @property
    def memory_bytes(self) -> int | None:
        """``memory`` in bytes."""
        return None if self.memory is None else parse_size(self.memory)


@frozen(kw_only=True)
class AttentionSection:
    """The kernels that the executor computes attention with.

    Args:
        backend: Attention backend; auto: the best that works.
    """

    backend: str = defaults.DEFAULT_ATTENTION


@frozen(kw_only=True)
class ExecutorSection:
    """The executor that computes the plans.

    Args:
        use: Executor.
        max_restarts: Failures in a row that it is restarted after.
    """

    use: str = defaults.DEFAULT_EXECUTOR
    max_restarts: int = option(3, unit="failures", ge=0)


@frozen(kw_only=True)
class RunSection:
    """Files and options of ``batchwright run``.

    Args:
        prompts: File of prompts, relative to the TOML file.
        output: File of answers, relative to the TOML file.
        chat: Whether the model's chat template is put around a prompt.
        system: System prompt of a chat.
        num_answers_shown: Answers printed at the end; 0: none.
    """

    prompts: str | None = None
    output: str | None = None
    chat: bool = True
    system: str | None = None
    num_answers_shown: int = option(3, unit="answers", ge=0)


@frozen(kw_only=True)
class SimulationSection:
    """What ``batchwright simulate`` runs on.

    Args:
        workload: What arrives; auto: none is chosen, --workload names it.
        estimator: Estimator of the true step times; auto: that of scheduler.estimator.
        oracle_estimator: Whether components may ask the true one; reports say so.
        executor: What computes the plans.
        max_tokens: Cap on output tokens of a request that brings none. class: the least
            power of two, and at least 256, that holds the workload's longest output;
            drawn: one of such classes by lot, that holds the request's own; exact: the
            true length, which reports say.
        until: Simulated time at which it ends; whatever runs is left unfinished.
        max_queue: Waiting requests that end it: more arrives than can be served.
        fast_forward: Whether steps in which nothing is decided are computed many at once.
    """

    workload: str = defaults.AUTO
    estimator: str = defaults.AUTO
    oracle_estimator: bool = False
    executor: str = defaults.SIMULATED_EXECUTOR
    max_tokens: int | Literal["class", "drawn", "exact"] = option("class", unit="tokens")
    until: float | None = option(None, unit="seconds", gt=0, default_text="the end")
    max_queue: int | None = option(None, unit="requests", ge=1, default_text="no limit")
    fast_forward: bool = True


@frozen(kw_only=True)
class PluginsSection:
    """Which plugins are found beside those installed.

    Args:
        load: Single-file plugins: paths of .py files, relative to the TOML file.
        disable: Plugins or distributions that are left out, by name.
        accept_degraded: Capabilities that the host may honour in part; see
            ``batchwright plugins --runtime``.
    """

    load: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    accept_degraded: tuple[str, ...] = ()
