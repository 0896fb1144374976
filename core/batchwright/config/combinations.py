"""Options that exclude each other: refused at start, with one message."""

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
    problems = [*_step_problems(config), *_cache_problems(config), *_sampling_problems(config)]
    if max_model_len is not None:
        problems += _length_problems(config, max_model_len)
    raise_problems(problems, config.source)


def _step_problems(config: Config) -> Iterator[Problem]:
    scheduler = config.scheduler
    num_tokens, num_seqs = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
    if num_seqs > num_tokens:
        yield Problem(
            "scheduler.max_num_batched_tokens",
            f"a step of max_num_batched_tokens = {num_tokens} cannot hold one token of "
            f"each of max_num_seqs = {num_seqs} requests; raise the one or lower the other",
        )
    if scheduler.max_num_scheduled_tokens > num_tokens:
        yield Problem(
            "scheduler.max_num_scheduled_tokens",
            f"max_num_scheduled_tokens = {scheduler.max_num_scheduled_tokens} exceeds "
            f"max_num_batched_tokens = {num_tokens}; it is a cap below it",
        )
    num_lookahead = scheduler.num_lookahead_tokens
    if num_lookahead * num_seqs > num_tokens:
        yield Problem(
            "scheduler.num_lookahead_tokens",
            f"num_lookahead_tokens = {num_lookahead} of each of max_num_seqs = {num_seqs} "
            f"requests exceed max_num_batched_tokens = {num_tokens}; lower one of the "
            "first two or raise the last",
        )


def _cache_problems(config: Config) -> Iterator[Problem]:
    if config.kv.num_blocks is not None and config.kv.memory is not None:
        yield Problem(
            "kv.num_blocks",
            f"num_blocks = {config.kv.num_blocks} and memory = {config.kv.memory!r} both "
            "say how large the cache is; keep one of them",
        )


def _sampling_problems(config: Config) -> Iterator[Problem]:
    problem = config.sampling.problem()
    if problem is not None:
        yield Problem(f"sampling.{problem.partition(' ')[0]}", problem)


def _length_problems(config: Config, max_model_len: int) -> Iterator[Problem]:
    scheduler = config.scheduler
    cap = min(scheduler.max_num_batched_tokens, scheduler.max_num_scheduled_tokens)
    if not scheduler.enable_chunked_prefill and max_model_len > cap:
        caps = f"max_num_batched_tokens = {scheduler.max_num_batched_tokens}"
        if cap < scheduler.max_num_batched_tokens:
            caps = f"max_num_scheduled_tokens = {cap} (and {caps})"
        yield Problem(
            "scheduler.enable_chunked_prefill",
            "with enable_chunked_prefill = false a prompt must fit into one step, but "
            f"{caps} is less than max_model_len = {max_model_len}; raise the one, lower "
            "the other, or allow chunks",
        )
    in_flight = scheduler.pipeline_depth * (1 + scheduler.num_lookahead_tokens)
    if in_flight >= max_model_len:
        yield Problem(
            "scheduler.pipeline_depth",
            f"pipeline_depth = {scheduler.pipeline_depth} steps of 1 + "
            f"num_lookahead_tokens = {scheduler.num_lookahead_tokens} tokens fill "
            f"max_model_len = {max_model_len}; lower one of the first two",
        )
