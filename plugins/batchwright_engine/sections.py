"""The sections of a configuration that the engine reads."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from batchwright.config import Section
from batchwright.default_plugins import AUTO
from batchwright.option import option

__all__ = ["AttentionSection", "ExecutorSection", "RunSection"]

DEFAULT_EXECUTOR: Final = "torch"


@frozen(kw_only=True)
class AttentionSection(Section):
    """The kernels that the executor computes attention with.

    Args:
        backend: Attention backend; auto: the best that works.
    """

    name = "attention"

    backend: str = AUTO


@frozen(kw_only=True)
class ExecutorSection(Section):
    """The executor that computes the plans.

    Args:
        use: Executor.
        max_restarts: Most failures in a row after which it is restarted.
    """

    name = "executor"

    use: str = DEFAULT_EXECUTOR
    max_restarts: int = option(3, unit="failures", ge=0)


@frozen(kw_only=True)
class RunSection(Section):
    """Files and options of ``batchwright run``.

    Args:
        prompts: File of prompts, relative to the TOML file.
        output: File of answers, relative to the TOML file.
        chat: True if the model's chat template is applied to a prompt.
        system: System prompt of a chat.
        num_answers_shown: Answers printed at the end; 0: none.
    """

    name = "run"
    files_read = {"prompts": "the file of prompts"}

    prompts: str | None = None
    output: str | None = None
    chat: bool = True
    system: str | None = None
    num_answers_shown: int = option(3, unit="answers", ge=0)
