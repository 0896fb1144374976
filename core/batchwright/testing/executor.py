"""An executor without a model, as strict about plans as a real one would like to be."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from attrs import frozen

from batchwright.clock import VirtualClock
from batchwright.context import Context, Sizes
from batchwright.exceptions import InvariantError
from batchwright.messages import ModelOutput
from batchwright.option import option
from batchwright.protocols import Executor, ModelInfo
from batchwright.testing.known_sequence import KnownSequence
from batchwright.testing.memory import PagedMemory
from batchwright.testing.model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchwright.messages import NewRequestData, SchedulerOutput
    from batchwright.protocols import ModelSettings

SPOILT = 1
"""Word of a position that was computed from what a failed request was to compute."""


@frozen
class Options:
    """Options of the scripted executor."""

    vocab_size: int = option(997, "Number of token ids.", unit="tokens", ge=2)
    seed: int = option(0, "Seed of the model.")
    eos_one_in: int = option(
        0, "Number of answers of which one ends its sequence; 0: none ends.", ge=0
    )
    num_draft_tokens: int = option(
        0, "Number of drafts proposed for a request.", unit="tokens", ge=0
    )
    draft_errors_one_in: int = option(3, "Number of drafts of which one is wrong.", ge=1)
    max_model_len: int = option(1 << 20, "Longest sequence.", unit="tokens", ge=2)
    verify: bool = option(True, "True to compare all KV that is read with its expected value.")


class ScriptedExecutor(Executor):
    """Compute plans with a ScriptedModel over a paged memory, from the deltas alone.

    Like a real one it keeps each request's tokens and block table, writes a word for every
    scheduled position through the table, and reads the whole history back before it samples: a
    block that was shared wrongly, freed too early or hit though it was stale changes the
    answer. Its own samples are known to it at once, so that in a pipeline it computes positions
    whose tokens the scheduler has yet to see.

    A plan that contradicts what it knows raises InvariantError. With ``verify`` so does
    memory that does not hold what the request's own tokens would have put there. Where a
    request fails (``errors``), or could not be taken up, its positions hold ``SPOILT``
    instead, and so does all that is computed from them: such a request answers some token,
    as a real executor would.
    """

    name = "scripted"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.model = ScriptedModel(
            vocab_size=options.vocab_size, seed=options.seed, eos_one_in=options.eos_one_in
        )
        self.memory = PagedMemory(1, 1)
        self.errors: dict[str, str] = {}
        """By request id, what the next plan that computes it answers instead of tokens."""
        self.num_executed = 0
        self._sequences: dict[str, KnownSequence] = {}
        self._spoilt_tables: dict[str, list[int]] = {}

    @classmethod
    def standalone(cls, num_blocks: int, block_size: int, **options: Any) -> ScriptedExecutor:
        """Make one that belongs to no configuration.

        Args:
            num_blocks: Blocks of its memory, the null block included.
            block_size: Tokens a block.
            options: Fields of ``Options``.
        """
        sizes = Sizes(
            max_num_seqs=1,
            max_num_batched_tokens=1,
            max_model_len=2,
            block_size=block_size,
            num_blocks=num_blocks,
        )
        label = f"executor {cls.name!r}"
        ctx = Context(
            label=label, path="executor", slot=0, clock=VirtualClock(), seed="", sizes=sizes
        )
        executor = cls(cls.Options(**options), ctx)
        executor.allocate_kv(num_blocks, block_size)
        return executor

    def load(self, settings: ModelSettings) -> ModelInfo:
        ends = (self.model.eos_token_id,) if self.model.eos_one_in else ()
        return ModelInfo(
            name=self.name,
            max_model_len=settings.max_model_len or self.options.max_model_len,
            vocab_size=self.model.vocab_size,
            eos_token_ids=ends,
            kv_bytes_per_token=8,
        )

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        self.memory = PagedMemory(num_blocks, block_size)

    def restart(self) -> None:
        self._sequences.clear()
        self.memory.clear()

    def add_request(self, request: NewRequestData) -> None:
        tokens = array("I", request.prompt_token_ids) + request.output_token_ids
        self._sequences[request.req_id] = KnownSequence(
            tokens,
            len(request.prompt_token_ids),
            list(request.block_ids),
            request.num_computed_tokens,
        )

    def remove_request(self, request_id: str) -> None:
        self._sequences.pop(request_id, None)

    def _execute_others(self, plan: SchedulerOutput) -> ModelOutput:
        self._spoil(plan)
        return super()._execute_others(plan)

    def _spoil(self, plan: SchedulerOutput) -> None:
        """Spoil the positions of requests that could not be taken up: no word is written there."""
        tables = self._spoilt_tables = {
            name: table for name, table in self._spoilt_tables.items() if name in self._untaken
        }
        for new in plan.scheduled_new_reqs:
            if new.req_id in self._untaken:
                tables[new.req_id] = list(new.block_ids)
        cached = plan.scheduled_cached_reqs
        for name, block_ids in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if name in tables:
                tables[name] += block_ids or ()
        for name, start in plan.starts():
            for position in range(start, start + plan.num_scheduled_tokens[name]):
                if name in tables:
                    self.memory.write(tables[name], position, SPOILT)

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        """Compute a plan.

        Raises:
            InvariantError: The plan or the memory contradicts what this executor knows.
        """
        self._update(plan)
        for copy in plan.block_copies:
            self.memory.copy_block(copy.source, copy.destination)
        # Everything is written before anything is read: requests of one step may share.
        for request_id in plan.num_scheduled_tokens:
            self._write(plan, request_id, fails=request_id in self.errors)
        output = ModelOutput()
        for request_id in plan.num_scheduled_tokens:
            sampled = self._sample(plan, request_id)
            error = self.errors.pop(request_id, None)
            if error is not None:
                output.errors[request_id] = error
                sampled = []
            output.req_ids.append(request_id)
            output.sampled_token_ids.append(sampled)
            if sampled and self.options.num_draft_tokens:
                output.draft_token_ids[request_id] = self._drafts(request_id)
        self.num_executed += 1
        return output

    def _update(self, plan: SchedulerOutput) -> None:
        """Take over what the plan says of requests that are here."""
        cached = plan.scheduled_cached_reqs
        resumed = frozenset(cached.resumed_req_ids)
        for request_id, new_blocks, computed, num_outputs in zip(
            cached.req_ids,
            cached.new_block_ids,
            cached.num_computed_tokens,
            cached.num_output_tokens,
            strict=True,
        ):
            sequence = self._known(request_id)
            known = sequence.num_prompt_tokens + num_outputs
            if known > len(sequence.tokens):
                raise InvariantError(
                    "E4",
                    f"request {request_id!r}: the plan counts {known} known tokens, "
                    f"the executor {len(sequence.tokens)}",
                )
            if request_id in resumed:
                sequence.table.clear()
                del sequence.tokens[known:], sequence.words[known:]
            sequence.table += new_blocks or ()
            sequence.num_computed_tokens = computed

    def _write(self, plan: SchedulerOutput, request_id: str, *, fails: bool = False) -> None:
        """Write the words of a request's scheduled positions; spoilt ones if it fails."""
        sequence = self._known(request_id)
        drafts = plan.scheduled_draft_token_ids.get(request_id, ())
        start = sequence.num_computed_tokens
        stop = start + plan.num_scheduled_tokens[request_id]
        known = stop - len(drafts)
        if not start < stop or known > len(sequence.tokens):
            raise InvariantError(
                "I4",
                f"request {request_id!r}: positions {start} to {stop - 1} are scheduled,  "
                f"{len(sequence.tokens)} tokens and {len(drafts)} drafts are known",
            )
        tokens = (*sequence.tokens[start:known], *drafts)
        previous = self.memory.word(sequence.table, start - 1) if start else 0
        is_spoilt = fails or previous == SPOILT
        for position, token in enumerate(tokens, start):
            previous = SPOILT if is_spoilt else self.model.word(previous, token)
            self.memory.write(sequence.table, position, previous)

    def _sample(self, plan: SchedulerOutput, request_id: str) -> list[int]:
        """Read the history back; accept drafts while they are what would be sampled."""
        sequence = self._known(request_id)
        drafts = plan.scheduled_draft_token_ids.get(request_id, ())
        stop = sequence.num_computed_tokens + plan.num_scheduled_tokens[request_id]
        known = stop - len(drafts)
        words = self.memory.read(sequence.table, stop)
        if self.options.verify and SPOILT not in words:
            self._compare(request_id, words, drafts)
        if known < len(sequence.tokens):
            return []
        sampled = [self.model.next_token(words[:known])]
        for index, draft in enumerate(drafts):
            if draft != sampled[-1]:
                break
            sampled.append(self.model.next_token(words[: known + index + 1]))
        sequence.tokens.extend(sampled)
        return sampled

    def _compare(self, request_id: str, words: array[int], drafts: Sequence[int]) -> None:
        """Check what was read against what the request's tokens would have written."""
        sequence = self._known(request_id)
        known = len(words) - len(drafts)
        expected = self._expected(sequence, known)[:known]
        for draft in drafts:
            expected.append(self.model.word(expected[-1], draft))
        if words == expected:
            return
        position = next(i for i, word in enumerate(expected) if word != words[i])
        block_id = sequence.table[position // self.memory.block_size]
        what = "nothing" if not words[position] else "what another history put there"
        raise InvariantError(
            "E4", f"request {request_id!r}: position {position} (block {block_id}) holds {what}"
        )

    def _expected(self, sequence: KnownSequence, num_tokens: int) -> array[int]:
        """Words of a sequence's first tokens (or more), computed once."""
        words = sequence.words
        previous = words[-1] if words else 0
        for token in sequence.tokens[len(words) : num_tokens]:
            previous = self.model.word(previous, token)
            words.append(previous)
        return words

    def _drafts(self, request_id: str) -> list[int]:
        """Guess what comes next; one guess in ``draft_errors_one_in`` is wrong."""
        sequence = self._known(request_id)
        words = self._expected(sequence, len(sequence.tokens))[:]
        drafts = []
        for _ in range(self.options.num_draft_tokens):
            token = self.model.next_token(words)
            if words[-1] % self.options.draft_errors_one_in == 0:
                token = (token + 1) % self.model.vocab_size
            drafts.append(token)
            words.append(self.model.word(words[-1], token))
        return drafts

    def _known(self, request_id: str) -> KnownSequence:
        try:
            return self._sequences[request_id]
        except KeyError:
            raise InvariantError(
                "E2", f"request {request_id!r} is planned, and the executor does not know it"
            ) from None
