"""Answers in the making, by request."""

from __future__ import annotations

import logging

from batchwright.exceptions import OUTSIDE
from batchwright.messages import RequestOutput, StepOutputs
from batchwright.protocols import SchedulerBase
from batchwright.request import RequestStatus
from batchwright_engine.answer import Answer
from batchwright_engine.detokenizer import Detokenizer

_log = logging.getLogger("batchwright.engine")


class Answers:
    """Makes outputs of what steps bring.

    Args:
        scheduler: Told of requests whose text has ended.

    Attributes:
        by_id: The answer of each request that the engine has added.
    """

    def __init__(self, scheduler: SchedulerBase) -> None:
        self._scheduler = scheduler
        self.by_id: dict[str, Answer] = {}

    def collect(self, step: StepOutputs) -> list[RequestOutput]:
        """Make an output for each request that has new tokens or has ended."""
        tokens = dict(zip(step.req_ids, step.new_token_ids, strict=True))
        for request_id in step.finished:
            tokens.setdefault(request_id, [])
        outputs = []
        for request_id, new in tokens.items():
            answer = self.by_id.get(request_id)
            if answer is None:
                continue  # it was added to the scheduler directly
            self._extend(answer, new, step)
            if request_id in step.finished:
                finish = step.finished[request_id]
                answer.end(finish.reason, finish.detail)
            output = answer.give()
            outputs.append(output)
            if output.finish_reason is not None:
                del self.by_id[request_id]
                if answer.ended is not None:
                    answer.ended.append(output)
        return outputs

    def _extend(self, answer: Answer, tokens: list[int], step: StepOutputs) -> None:
        """Add a step's tokens to an answer; end the request if its text has ended, or fails."""
        request_id = answer.request.request_id
        try:
            answer.extend(tokens, step.logprobs.get(request_id))
            stop = answer.text.stopped_by
        except OUTSIDE:
            raise
        except BaseException as error:  # one request's fault alone
            _log.warning("request %r: its text cannot be made", request_id, exc_info=error)
            detail = f"its text cannot be made: {type(error).__name__}: {error}"
            answer.text = Detokenizer(None)
            self._scheduler.finish(request_id, RequestStatus.FINISHED_ERROR, detail)
            answer.end("error", detail)
            return
        if stop is not None:
            detail = f"stop_string:{stop}"
            self._scheduler.finish(request_id, RequestStatus.FINISHED_STOPPED, detail)
            answer.end("stop", detail)
