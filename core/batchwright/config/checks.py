"""Checks of options that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from batchwright.config.config import Config
from batchwright.config.structure import Problem, raise_problems


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
    problems = [*_step_problems(config), *_section_problems(config)]
    if max_model_len is not None:
        problems += _length_problems(config, max_model_len)
    raise_problems([Problem(path, message) for path, message in problems], config.source)


def _step_problems(config: Config) -> Iterator[tuple[str, str]]:
    scheduler = config.scheduler
    num_tokens, num_seqs = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
    cap, num_lookahead = scheduler.max_num_scheduled_tokens, scheduler.num_lookahead_tokens
    step = f"max_num_batched_tokens = {num_tokens}"
    if num_seqs > num_tokens:
        message = f"a step of {step} cannot hold a token of each of max_num_seqs = {num_seqs}"
        yield ("scheduler.max_num_batched_tokens", f"{message} requests; raise or lower one")
    if cap > num_tokens:
        message = f"max_num_scheduled_tokens = {cap} exceeds {step}; it is a cap below it"
        yield "scheduler.max_num_scheduled_tokens", message
    if num_lookahead * num_seqs > num_tokens:
        message = f"num_lookahead_tokens = {num_lookahead} of each of max_num_seqs = {num_seqs}"
        yield "scheduler.num_lookahead_tokens", f"{message} requests exceed {step}"


def _section_problems(config: Config) -> Iterator[tuple[str, str]]:
    kv, sampling = config.kv, config.sampling.problem()
    if kv.num_blocks is not None and kv.memory is not None:
        message = f"num_blocks = {kv.num_blocks} and memory = {kv.memory!r} both say how large"
        yield "kv.num_blocks", f"{message} the cache is; keep one of them"
    if sampling is not None:
        yield f"sampling.{sampling.partition(' ')[0]}", sampling


def _length_problems(config: Config, max_model_len: int) -> Iterator[tuple[str, str]]:
    scheduler = config.scheduler
    length = f"max_model_len = {max_model_len}"
    cap, num_tokens = scheduler.max_num_scheduled_tokens, scheduler.max_num_batched_tokens
    if not scheduler.enable_chunked_prefill and max_model_len > cap:
        step = f"max_num_scheduled_tokens = {cap} (and max_num_batched_tokens = {num_tokens})"
        message = f"with enable_chunked_prefill = false a prompt must fit into one step, but {step}"
        yield "scheduler.enable_chunked_prefill", f"{message} is less than {length}"
    depth, num_lookahead = scheduler.pipeline_depth, scheduler.num_lookahead_tokens
    if depth * (1 + num_lookahead) >= max_model_len:
        step = f"1 + num_lookahead_tokens = {num_lookahead} tokens"
        message = f"pipeline_depth = {depth} steps of {step} fill {length}; lower one of them"
        yield "scheduler.pipeline_depth", message
