"""The sections of a configuration: every option, its default, its documentation."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from attrs import Attribute, Factory, frozen

from batchwright.default_plugins import (
    AUTO,
    DEFAULT_ATTENTION,
    DEFAULT_EVICTION,
    DEFAULT_EXECUTOR,
    DEFAULT_HASHER,
    DEFAULT_KV,
    DEFAULT_POLICY,
    DEFAULT_PREEMPTION,
)
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
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** (" KMGT".index(match[2] or " ")))


def _size(_instance: Any, _attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and parse_size(value) < 1:
        raise ValueError(f"expected at least one byte, got {value!r}")


@frozen(kw_only=True)
class ModelSection:
    """The model that the executor loads."""

    path: str | None = option(
        None, "Local Hugging Face folder, or the name of an embedded model.", default_text="none"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = option(
        "auto", "Type of weights and KV; auto: as the model was stored."
    )
    max_model_len: int | None = option(
        None,
        "Longest request, prompt and outputs together.",
        unit="tokens",
        default_text=f"the model's; {DEFAULT_MAX_MODEL_LEN} without a model",
        ge=2,
    )


@frozen(kw_only=True)
class SchedulerSection:
    """Who gets how much of each step."""

    policy: str = option(DEFAULT_POLICY, "Order in which requests are served.")
    max_num_batched_tokens: int = option(
        2048, "Most tokens computed in one step, prefill and decode alike.", unit="tokens", ge=1
    )
    max_num_scheduled_tokens: int = option(
        Factory(lambda self: self.max_num_batched_tokens, takes_self=True),
        "Most tokens granted in one step, where that is to be less than what fits into it.",
        unit="tokens",
        default_text="max_num_batched_tokens",
        ge=1,
    )
    max_num_seqs: int = option(
        Factory(
            lambda self: min(DEFAULT_MAX_NUM_SEQS, self.max_num_batched_tokens), takes_self=True
        ),
        "Most requests running at a time.",
        unit="requests",
        default_text=f"{DEFAULT_MAX_NUM_SEQS}, or max_num_batched_tokens if that is less",
        ge=1,
    )
    enable_chunked_prefill: bool = option(
        True, "Whether a prompt may be computed over several steps."
    )
    victim: str = option(AUTO, "Who yields when blocks run out; auto: as the policy prefers.")
    preemption: str = option(DEFAULT_PREEMPTION, "What becomes of the KV of who yields.")
    pipeline_depth: int = option(
        1, "Steps that may be planned before the first of them is done.", unit="steps", ge=1
    )
    scan_window: int = option(
        64,
        "Waiting requests that one step may pass over because a gate skipped them.",
        unit="requests",
        ge=1,
    )
    backfill: int = option(
        0,
        "Waiting requests behind the first that gets no blocks which a step still tries; 0: none.",
        unit="requests",
        ge=0,
    )
    num_lookahead_tokens: int = option(
        0, "Slots allocated beyond the granted ones, for drafts; 0: none.", unit="tokens", ge=0
    )
    seed: int = option(0, "Seed of every stream of chance.", ge=0)
    stall_steps: int = option(
        3,
        "Steps in which nothing runs and nothing is scheduled, though something would fit, "
        "before the progress guard steps in.",
        unit="steps",
        ge=1,
    )
    max_component_faults: int = option(
        3,
        "Faults in a row of a component, on no request's behalf, that end the run.",
        unit="faults",
        ge=1,
    )


@frozen(kw_only=True)
class KVSection:
    """The KV cache."""

    manager: str = option(DEFAULT_KV, "What keeps the blocks.")
    block_size: int = option(16, "Tokens that a block holds.", unit="tokens", ge=1)
    num_blocks: int | None = option(
        None,
        "Size of the cache in blocks, the null block included. Not together with memory.",
        unit="blocks",
        default_text=f"{DEFAULT_NUM_BLOCKS}, unless memory is set",
        ge=2,
    )
    memory: str | None = option(
        None,
        "Size of the cache in bytes, e.g. '1 GiB'; needs a model. Not together with num_blocks.",
        default_text="none",
        check=_size,
    )
    enable_prefix_caching: bool = option(
        True, "Whether requests share the blocks of equal prefixes."
    )
    hasher: str = option(DEFAULT_HASHER, "Hash that identifies a block's content.")
    eviction: str = option(DEFAULT_EVICTION, "Order in which cached blocks are given up.")

    @property
    def memory_bytes(self) -> int | None:
        """``memory`` in bytes."""
        return None if self.memory is None else parse_size(self.memory)


@frozen(kw_only=True)
class AttentionSection:
    """The kernels that the executor computes attention with."""

    backend: str = option(DEFAULT_ATTENTION, "Attention backend; auto: the best that works.")


@frozen(kw_only=True)
class ExecutorSection:
    """What computes the plans."""

    use: str = option(DEFAULT_EXECUTOR, "Executor.")
    max_restarts: int = option(
        3, "Failures in a row that it is restarted after.", unit="failures", ge=0
    )


@frozen(kw_only=True)
class RunSection:
    """What ``batchwright run`` reads and writes."""

    prompts: str | None = option(
        None, "File of prompts, relative to the TOML file.", default_text="none"
    )
    output: str | None = option(
        None, "File of answers, relative to the TOML file.", default_text="none"
    )
    chat: bool = option(True, "Whether the model's chat template is put around a prompt.")
    system: str | None = option(None, "System prompt of a chat.", default_text="none")
    num_answers_shown: int = option(3, "Answers printed at the end; 0: none.", unit="answers", ge=0)


@frozen(kw_only=True)
class PluginsSection:
    """Which plugins are found beside those installed."""

    load: tuple[str, ...] = option(
        (), "Single-file plugins: paths of .py files, relative to the TOML file."
    )
    disable: tuple[str, ...] = option((), "Plugins or distributions that are left out, by name.")
