"""The vLLM that this package builds on: its versions, and the members that it overrides."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from batchwright.exceptions import PluginError

__all__ = ["ALLOW_UNTESTED", "TESTED", "check_members", "check_vllm"]

TESTED: Final = "0.32"
"""Versions of vLLM that the tests ran with, as ``major.minor``."""

ALLOW_UNTESTED: Final = "BATCHWRIGHT_ALLOW_UNTESTED_VLLM"
"""Environment variable; 1 allows other versions."""

METHODS: Final = (
    "schedule",
    "update_from_output",
    "add_request",
    "finish_requests",
    "shutdown",
    "_preempt_request",
    "_free_request",
    "_handle_blocked_waiting_request",
    "_ec_transfer_pending",
    "_get_local_prefix_cache_hit",
    "_reserve_prefill_lookahead",
)
"""Methods of vLLM's scheduler that are overridden or called."""

ATTRIBUTES: Final = (
    "deferred_waiting",
    "grammar_compile_error_reqs",
    "kv_cache_manager",
    "kv_holding_waiting",
    "max_num_active_reqs",
    "max_num_scheduled_tokens",
    "policy",
    "requests",
    "running",
    "scheduler_reserve_full_isl",
    "waiting",
)
"""Attributes of vLLM's scheduler that are read or replaced."""


def check_vllm() -> None:
    """Check that vLLM is there, in a version that the tests ran with.

    Raises:
        PluginError: It is missing, or of another version.
    """
    try:
        version = str(import_module("vllm").__version__)
    except ImportError as error:
        raise PluginError(
            f"batchwright_vllm needs vLLM {TESTED} ({error}); install it, or "
            "`pip install batchwright-vllm[vllm]`"
        ) from error
    if version.startswith(f"{TESTED}.") or os.environ.get(ALLOW_UNTESTED) == "1":
        return
    raise PluginError(
        f"vLLM {version} is installed, and batchwright_vllm was tested with {TESTED}.*; install "
        f"that, or set {ALLOW_UNTESTED}=1 to try this one"
    )


def check_members(scheduler: Any) -> None:
    """Check that a scheduler of vLLM has each member that this package builds on.

    Args:
        scheduler: An instance, constructed.

    Raises:
        PluginError: Some are missing; names all of them.
    """
    missing = [name for name in METHODS if not callable(getattr(scheduler, name, None))]
    missing += [name for name in ATTRIBUTES if not hasattr(scheduler, name)]
    others = sorted(
        name
        for name, value in vars(scheduler).items()
        if name not in ATTRIBUTES and _is_queue(value)
    )
    if missing or others:
        version = import_module("vllm").__version__
        what = f"has no {', '.join(missing)}" if missing else f"has more queues: {others}"
        raise PluginError(
            f"the scheduler of vLLM {version} {what}; batchwright_vllm was tested with {TESTED}.*"
        )


def _is_queue(value: object) -> bool:
    return hasattr(value, "peek_request") and hasattr(value, "prepend_requests")
