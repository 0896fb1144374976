"""Commits what a step computed."""

from __future__ import annotations

from array import array

from attrs import define

from batchwright.answer_form import form_problem, is_plain
from batchwright.exceptions import StepError
from batchwright.messages import ModelOutput, SchedulerOutput, StepOutputs
from batchwright.request import TOKEN_TYPECODE, Request, RequestStatus
from batchwright.scheduler.ending import Ending
from batchwright.scheduler.failures import Failures
from batchwright.scheduler.in_flight import InFlightStep
from batchwright.scheduler.preemption import Preemption
from batchwright.scheduler.state import State


@define(eq=False, slots=False)
class Results:
    """Appends sampled tokens, ends what has reached its end, returns what is free.

    Args:
        state: The requests, by place.
        ending: Ends requests.
        preemption: Queues preempted requests that have been answered.
        failures: Ends requests that could not be computed.
    """

    _state: State
    _ending: Ending
    _preemption: Preemption
    _failures: Failures

    def commit(self, plan: SchedulerOutput, output: ModelOutput) -> StepOutputs:
        """Commit the oldest plan in flight.

        Raises:
            StepError: It is another plan's turn, or the answer is none; then nothing
                has happened.
        """
        state = self._state
        self._check_turn(plan)
        ids = list(plan.num_scheduled_tokens)
        rows = self._rows(ids, output)
        # Before any request ends: one that was aborted while it was computed ended earlier.
        step = state.in_flight.take_oldest()
        if state.in_flight.failed_ids:
            state.in_flight.failed_ids = []
        if output.errors:
            self._failures.end(step, output.errors)
        first = self._receive_batch(step, rows)
        outputs = StepOutputs(plan.step_id, ids[:first], rows[:first])
        if first < len(ids):
            for request, tokens in zip(step.requests[first:], rows[first:], strict=True):
                new = self._deliver(step, request, tokens)
                if new:
                    outputs.req_ids.append(request.request_id)
                    outputs.new_token_ids.append(new)
        if output.draft_token_ids:
            self._take_drafts(output)
        if output.logprobs:
            outputs.logprobs = output.logprobs
        if state.waiting.num_unanswered:
            self._requeue_answered(step)
        outputs.finished, state.ended = state.ended, {}
        return outputs

    def _check_turn(self, plan: SchedulerOutput) -> None:
        steps = self._state.in_flight.steps
        if not steps or (steps[0].plan is not plan and steps[0].plan != plan):
            turn = f"step {steps[0].plan.step_id} is next" if steps else "none is in flight"
            is_plan = isinstance(plan, SchedulerOutput)
            got = f"the plan of step {plan.step_id}" if is_plan else f"{plan!r}, which is no plan"
            raise StepError(
                f"update_from_output() got {got}, but {turn}; "
                "every plan is updated once, in the order in which it was made"
            )

    def _rows(self, ids: list[str], output: ModelOutput) -> list[list[int]]:
        """Return the sampled tokens, a row for every request of the plan, in its order.

        Raises:
            StepError: It has not the form of an answer.
        """
        if not is_plain(output) and (problem := form_problem(output)) is not None:
            raise StepError(f"update_from_output() got an answer of another form: {problem}")
        rows = output.sampled_token_ids
        if output.req_ids == ids and len(rows) == len(ids):
            return rows
        try:
            by_id = dict(zip(output.req_ids, rows, strict=False))
        except TypeError as error:
            raise StepError(f"update_from_output() got ids that are none: {error}") from None
        return [by_id.get(request_id, []) for request_id in ids]

    def _receive_batch(self, step: InFlightStep, rows: list[list[int]]) -> int:
        """Append the tokens of the decode batch, all at once.

        Returns:
            The requests that have got theirs: the first so many, or none.
        """
        if step.batch is None:
            return 0
        last = self._state.decode_batch.receive(step.batch, rows)
        if last is None:
            return 0
        for request, token in last:
            if request.finish is None:  # or the end of another one has ended it, too
                self.end_if_done(request, token)
        return len(step.batch)

    def _deliver(self, step: InFlightStep, request: Request, tokens: list[int]) -> list[int]:
        """Append one request's new tokens, up to its end.

        Returns:
            Those that were appended.
        """
        if request.finish is not None or request.request_id in step.dropped:
            return []
        if not isinstance(tokens, list | tuple):
            self._refuse(step, request, f"{tokens!r}, which is no list of token ids")
            return []
        drafts = step.plan.scheduled_draft_token_ids.get(request.request_id, ())
        is_sampled = request.num_new_tokens <= 0  # the plan reached its last known token
        if step.sampling is not None:
            is_sampled = request.request_id in step.sampling
        if bool(tokens) is not is_sampled or len(tokens) > 1 + len(drafts):
            expected = "one is sampled if, and only if, the grant reaches the last known token"
            if drafts:
                expected = f"1 to {1 + len(drafts)} were to be sampled"
            self._refuse(step, request, f"{len(tokens)} tokens where {expected}")
            return []
        if request.status is RequestStatus.RUNNING and drafts:
            # Rejected drafts were counted as computed when they were scheduled.
            request.num_computed_tokens -= len(drafts) + 1 - len(tokens)
        if request.num_output_placeholders and tokens:
            request.num_output_placeholders -= 1
        return self._append(step, request, tokens)

    def _append(self, step: InFlightStep, request: Request, tokens: list[int]) -> list[int]:
        state = self._state
        delivered = 0
        for token in tokens:
            try:
                request.token_ids.append(token)
            except (TypeError, OverflowError):
                self._refuse(step, request, f"{token!r}, which is no token id")
                break
            delivered += 1
            if request.first_token_time is None:
                request.first_token_time = state.clock.now()
            if self.end_if_done(request, token):
                break
        if request.status is RequestStatus.RUNNING:
            state.decode_batch.join(request)
        return tokens[:delivered] if delivered < len(tokens) else tokens

    def end_if_done(self, request: Request, token: int) -> bool:
        """End a request if its newest token was its last; whether it was. Stops precede lengths."""
        state, num_tokens = self._state, len(request.token_ids)
        if token in request.stop_ids and (
            request.num_output_tokens >= request.sampling_params.min_tokens
            or state.compat.stops_early
        ):
            status = RequestStatus.FINISHED_STOPPED
            detail = "eos" if token in request.eos_ids else f"stop_token:{token}"
        elif num_tokens >= state.sizes.max_model_len:
            status, detail = RequestStatus.FINISHED_LENGTH, "max_model_len"
        elif num_tokens >= request.max_total_tokens:
            status, detail = RequestStatus.FINISHED_LENGTH, "max_tokens"
        else:
            return False
        self._ending.finish(request, status, detail)
        return True

    def _refuse(self, step: InFlightStep, request: Request, answer: str) -> None:
        """End a request that the executor answered nonsense for."""
        self._failures.end(step, {request.request_id: f"the executor answered {answer}"})

    def _take_drafts(self, output: ModelOutput) -> None:
        """Keep proposed drafts for the next step.

        In a pipeline they are dropped: they continue tokens that the plans in flight
        are sampling anew, so that they would stand one position too far.
        """
        state = self._state
        if state.settings.pipeline_depth > 1:
            return
        for request_id, drafts in output.draft_token_ids.items():
            request = state.running.get(request_id)
            if request is None:
                continue
            try:
                known = array(TOKEN_TYPECODE, drafts)
            except (TypeError, ValueError, OverflowError):
                detail = f"the executor answered the drafts {drafts!r}, which are no token ids"
                self._ending.finish(request, RequestStatus.FINISHED_ERROR, detail)
                continue
            state.decode_batch.leave(request)
            request.draft_token_ids = known.tolist()

    def _requeue_answered(self, step: InFlightStep) -> None:
        """Queue preempted requests whose last step in flight this was."""
        state = self._state
        for request in step.requests:
            if (
                request.status is RequestStatus.PREEMPTED
                and state.waiting.awaits_answer(request)
                and state.in_flight.last_step_of(request) is None
            ):
                self._preemption.answered(request)
