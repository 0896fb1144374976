"""Checks of options that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from batchwright.config.config import Config


def check_combinations(config: Config, max_model_len: int | None) -> None:
    """Refuse options that cannot be had together.

    Called when a configuration is read, and again when the model has said how long
    a request can be.

    Args:
        config: The configuration.
        max_model_len: Longest request (tokens); None while it is not known.

    Raises:
        ConfigError: Names the options that exclude each other, all of them.
    """
    config.refuse([*_step_problems(config, max_model_len), *_section_problems(config)])


def _step_problems(config: Config, max_model_len: int | None) -> Iterator[tuple[str, str]]:
    scheduler, length = config.scheduler, f"max_model_len = {max_model_len}"
    num_tokens, cap = scheduler.max_num_batched_tokens, scheduler.max_num_scheduled_tokens
    depth, num_lookahead = scheduler.pipeline_depth, scheduler.num_lookahead_tokens
    step = f"max_num_batched_tokens = {num_tokens}"
    lookahead = f"num_lookahead_tokens = {num_lookahead}"
    requests = f"of each of max_num_seqs = {scheduler.max_num_seqs} requests"
    if scheduler.max_num_seqs > num_tokens:
        message = f"a step of {step} cannot hold a token {requests}; raise or lower one"
        yield "scheduler.max_num_batched_tokens", message
    if cap > num_tokens:
        message = f"max_num_scheduled_tokens = {cap} exceeds {step}; it is a cap below it"
        yield "scheduler.max_num_scheduled_tokens", message
    if num_lookahead * scheduler.max_num_seqs > num_tokens:
        yield "scheduler.num_lookahead_tokens", f"{lookahead} {requests} exceed {step}"
    if max_model_len is None:
        return
    if not scheduler.enable_chunked_prefill and max_model_len > cap:
        message = "with enable_chunked_prefill = false a prompt must fit into one step, but "
        message += f"max_num_scheduled_tokens = {cap} (and {step}) is less than {length}"
        yield "scheduler.enable_chunked_prefill", message
    if depth * (1 + num_lookahead) >= max_model_len:
        message = f"pipeline_depth = {depth} steps of 1 + {lookahead} tokens fill {length}"
        yield "scheduler.pipeline_depth", f"{message}; lower one of them"


def _section_problems(config: Config) -> Iterator[tuple[str, str]]:
    kv, sampling = config.kv, config.sampling.problem()
    if kv.num_blocks is not None and kv.memory is not None:
        message = f"num_blocks = {kv.num_blocks} and memory = {kv.memory!r} both say how large"
        yield "kv.num_blocks", f"{message} the cache is; keep one of them"
    if sampling is not None:
        yield f"sampling.{sampling.partition(' ')[0]}", sampling
