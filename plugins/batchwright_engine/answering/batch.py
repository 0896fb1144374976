"""Answer a batch of prompts with an engine, and keep finished results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from batchwright.exceptions import ModelError, RequestRefusedError
from batchwright.messages import RequestOutput
from batchwright_engine.answer import NO_METRICS
from batchwright_engine.signals import catching, interrupt

if TYPE_CHECKING:
    from types import FrameType

    from batchwright_engine.answering.prompt_line import PromptLine
    from batchwright_engine.answering.result_file import Results
    from batchwright_engine.engine import Engine
    from batchwright_engine.prompt import Prompt
    from batchwright_engine.sections import RunSection

__all__ = ["ERROR", "REFUSED", "Batch"]

REFUSED: Final = "refused"
"""The finish reason of a request that was never added."""
ERROR: Final = "error"
"""The finish reason of a request that a component or the executor could not serve."""


class Batch:
    """Prompts on their way through an engine.

    Args:
        engine: Answers them.
        prompts: Prompts to answer, in input order.
        section: Form of prompts (chat template, system prompt), and the number of answers shown.
        results: Destination of results.

    Attributes:
        reasons: Number of ended requests by finish reason.
        first_detail: Reason of the first failed request.
        answers: The first answers in input order, to be shown, by index.
        seconds: Time of the run (seconds on the engine's clock).
        stopped_by: The signal that stopped it, or None.
    """

    def __init__(
        self, engine: Engine, prompts: Sequence[PromptLine], section: RunSection, results: Results
    ) -> None:
        self.engine = engine
        self.prompts = prompts
        self.reasons: Counter[str] = Counter()
        self.first_detail = ""
        self.answers: dict[int, RequestOutput] = {}
        self.seconds = 0.0
        self.stopped_by: int | None = None
        self._section = section
        self._results = results
        self._open: dict[str, int] = {}

    @property
    def num_finished(self) -> int:
        """Requests that have a result."""
        return self.reasons.total()

    @property
    def is_complete(self) -> bool:
        """True if every prompt has a result."""
        return self.num_finished == len(self.prompts)

    @property
    def num_failed(self) -> int:
        """Requests whose result is no answer."""
        return self.reasons[REFUSED] + self.reasons[ERROR]

    def run(self) -> None:
        """Answer all prompts, or as many as there are until a signal comes.

        The first SIGINT or SIGTERM ends it after the step at hand; a second one ends
        it at once, with Interrupted.

        Raises:
            ExecutorError: The executor could not be brought back.
            PluginError: A component failed too often in a row.
        """
        clock = self.engine.scheduler.clock
        started = clock.now()
        try:
            with catching(self._stop):
                self._submit()
                while self._open and self.stopped_by is None:
                    for output in self.engine.step():
                        if output.finished:
                            self._finish(self._open.pop(output.request_id), output)
        finally:
            self.seconds = clock.now() - started

    def _submit(self) -> None:
        for index, line in enumerate(self.prompts):
            if self.stopped_by is not None:
                return
            try:
                self._add(line)
            except RequestRefusedError as error:
                self._refuse(index, line, error.reason)
            except ModelError as error:  # the chat template has something against it
                hint = " (run.chat = false sends prompts as they are)"
                is_text = isinstance(line.prompt, str)
                self._refuse(index, line, f"{error}{hint if is_text else ''}")
            else:
                self._open[line.request_id] = index

    def _add(self, line: PromptLine) -> None:
        fields = dict(line.fields)
        if "deadline" in fields:
            fields["deadline"] += self.engine.scheduler.clock.now()
        self.engine.add(self._put(line.prompt), line.sampling, request_id=line.request_id, **fields)

    def _put(self, prompt: Prompt) -> Prompt:
        """Make a conversation of a text, and give one its system prompt."""
        if isinstance(prompt, str):
            if not self._section.chat:
                return prompt
            prompt = [{"role": "user", "content": prompt}]
        first = prompt[0]
        system = self._section.system
        if system is None or not isinstance(first, Mapping) or first["role"] == "system":
            return prompt
        return [{"role": "system", "content": system}, *prompt]

    def _refuse(self, index: int, line: PromptLine, reason: str) -> None:
        output = RequestOutput(
            request_id=line.request_id, finish_reason=REFUSED, detail=reason, metrics=NO_METRICS
        )
        self._finish(index, output)

    def _finish(self, index: int, output: RequestOutput) -> None:
        self._results.add(index, _result(self.prompts[index], output))
        reason = output.finish_reason or ""
        self.reasons[reason] += 1
        if reason in (REFUSED, ERROR):
            self.first_detail = self.first_detail or output.detail
        else:
            self._keep(index, output)

    def _keep(self, index: int, output: RequestOutput) -> None:
        """Remember the answers that stand first in the input, as many as are shown."""
        self.answers[index] = output
        if len(self.answers) > self._section.num_answers_shown:
            del self.answers[max(self.answers)]

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopped_by is not None:
            interrupt(number)
        self.stopped_by = number


def _result(line: PromptLine, output: RequestOutput) -> dict[str, Any]:
    """A result as it is written; seconds in ``timings``, tokens in ``counts``."""
    metrics = output.metrics
    result = {
        "id": output.request_id,
        "line": line.number,
        **line.source,
        "text": output.text,
        "token_ids": output.token_ids,
        "finish_reason": output.finish_reason,
        "detail": output.detail,
        "timings": {k: v for k, v in metrics.items() if k.endswith("_s")},
        "counts": {k: v for k, v in metrics.items() if k.startswith("num_")},
    }
    if line.sampling.logprobs is not None or output.logprobs is not None:
        result["logprobs"] = [attrs.asdict(entry) for entry in output.logprobs or ()]
    return result
