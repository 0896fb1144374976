"""Prompts that are answered while the engine is stepped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batchwright.messages import RequestOutput
    from batchwright.sampling_params import SamplingParams
    from batchwright_engine.answer import Answer
    from batchwright_engine.engine import Engine
    from batchwright_engine.prompt import Prompt

__all__ = ["answered"]


def answered(
    engine: Engine,
    answers: dict[str, Answer],
    asked: Sequence[tuple[Prompt, SamplingParams | None]],
    drop_unwanted: Callable[[], None],
) -> Iterator[RequestOutput]:
    """Submit prompts, step the engine, and yield each final output when its request ends.

    Args:
        engine: The engine.
        answers: Its answers in the making, by request.
        asked: The prompts.
        drop_unwanted: Called at the end, for steps in flight without a request.
    """
    mine: dict[str, None] = {}
    ended: deque[RequestOutput] = deque()
    try:
        for prompt, params in asked:
            request_id = engine.add(prompt, params)
            mine[request_id] = None
            answers[request_id].ended = ended
        while mine:
            engine.step()
            while ended:  # in this step, or in one of the caller's since the last answer
                output = ended.popleft()
                del mine[output.request_id]
                yield output
    finally:
        for request_id in mine:  # of those that ended in the last step, too
            answers.pop(request_id, None)
        engine.abort(mine)
    drop_unwanted()
