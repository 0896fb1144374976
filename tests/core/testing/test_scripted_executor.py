"""The scripted executor: it answers as its model does, and takes no wrong plan."""

from array import array

import pytest

from batchwright.exceptions import InvariantError
from batchwright.messages import BlockCopy, CachedRequestData, NewRequestData, SchedulerOutput
from batchwright.sampling_params import SamplingParams
from batchwright.testing import (
    PagedMemory,
    ScriptedExecutor,
    ScriptedModel,
    make_request,
    reference_output,
)


def plan_of(step_id=0, new=(), cached=None, tokens=None, **fields):
    return SchedulerOutput(
        step_id=step_id,
        scheduled_new_reqs=list(new),
        scheduled_cached_reqs=cached or CachedRequestData(),
        num_scheduled_tokens=tokens or {},
        total_num_scheduled_tokens=sum((tokens or {}).values()),
        **fields,
    )


def new_request(request_id, prompt, blocks, computed=0, outputs=()):
    return NewRequestData(
        req_id=request_id,
        prompt_token_ids=array("I", prompt),
        sampling_params=SamplingParams(),
        block_ids=list(blocks),
        num_computed_tokens=computed,
        output_token_ids=array("I", outputs),
    )


def known(request_id, computed, num_outputs, blocks=None, *, resumed=False):
    return CachedRequestData(
        [request_id], [request_id] if resumed else [], [blocks], [computed], [num_outputs]
    )


PROMPT = [5, 6, 7, 8, 9]
REFERENCE = reference_output(make_request("A", PROMPT, 4), ScriptedModel())


def started():
    """An executor of 4-token blocks that has computed A's prompt in blocks 1 and 2."""
    executor = ScriptedExecutor.standalone(8, 4)
    output = executor.run(plan_of(0, [new_request("A", PROMPT, [1, 2])], tokens={"A": 5}))
    assert output.sampled_token_ids == [[REFERENCE[0]]]
    return executor


def test_model_depends_on_every_token_and_on_the_seed():
    model, other = ScriptedModel(), ScriptedModel(seed=1)
    answers = {
        tuple(prompt): reference_output(make_request("A", prompt, 3), model)
        for prompt in ([1, 2, 3], [9, 2, 3], [1, 9, 3], [1, 2, 9], [2, 1, 3])
    }
    assert len({tuple(answer) for answer in answers.values()}) == 5
    assert reference_output(make_request("A", [1, 2, 3], 3), other) != answers[1, 2, 3]


def test_model_ends_sequences_now_and_then_and_never_otherwise():
    model = ScriptedModel(vocab_size=5, eos_one_in=6, eos_token_id=2)
    lengths, silent = [], ScriptedModel(vocab_size=5, eos_one_in=10**9, eos_token_id=2)
    for start in range(60):
        request = make_request("A", [start], 200, ignore_eos=False, eos_token_id=2)
        lengths.append(len(reference_output(request, model)))
        assert 2 not in reference_output(request, silent)
    assert 3 < sum(lengths) / len(lengths) < 12


def test_reference_stops_where_the_scheduler_would():
    model = ScriptedModel()
    long = reference_output(make_request("A", PROMPT, 9), model)
    assert reference_output(make_request("A", PROMPT, None), model, max_model_len=9) == long[:4]
    stop = {"stop_token_ids": [long[2]]}
    assert reference_output(make_request("A", PROMPT, 9, sampling=stop), model) == long[:3]
    later = {**stop, "min_tokens": 5}
    assert len(reference_output(make_request("A", PROMPT, 9, sampling=later), model)) > 3


def test_chunks_answer_only_when_the_prompt_is_complete():
    executor = ScriptedExecutor.standalone(8, 4)
    first = executor.run(plan_of(0, [new_request("A", PROMPT, [3])], tokens={"A": 4}))
    assert first.sampled_token_ids == [[]]
    last = executor.run(plan_of(1, cached=known("A", 4, 0, [1]), tokens={"A": 1}))
    assert last.sampled_token_ids == [[REFERENCE[0]]]


def test_a_pipeline_computes_tokens_that_the_scheduler_has_yet_to_see():
    executor = started()
    for step in (1, 2):
        output = executor.run(plan_of(step, cached=known("A", 4 + step, 0), tokens={"A": 1}))
        assert output.sampled_token_ids == [[REFERENCE[step]]]


def test_resumed_and_restarted_requests_go_on_where_they_were():
    executor = started()
    resumed = known("A", 0, 1, [4, 5], resumed=True)
    output = executor.run(plan_of(1, cached=resumed, tokens={"A": 6}))
    assert output.sampled_token_ids == [[REFERENCE[1]]]
    executor.restart()
    again = new_request("A", PROMPT, [6, 7], outputs=REFERENCE[:2])
    output = executor.run(plan_of(2, [again], tokens={"A": 7}))
    assert output.sampled_token_ids == [[REFERENCE[2]]]


@pytest.mark.parametrize(
    ("drafts", "answer"),
    [
        ([REFERENCE[1], REFERENCE[2]], REFERENCE[1:4]),
        ([REFERENCE[1], 0], REFERENCE[1:3]),
        ([0, REFERENCE[2]], REFERENCE[1:2]),
    ],
)
def test_drafts_are_accepted_while_they_are_right(drafts, answer):
    output = started().run(
        plan_of(
            1, cached=known("A", 5, 1), tokens={"A": 3}, scheduled_draft_token_ids={"A": drafts}
        )
    )
    assert output.sampled_token_ids == [answer]


def test_proposed_drafts_are_right_but_for_some():
    executor = ScriptedExecutor.standalone(8, 4, num_draft_tokens=3, draft_errors_one_in=10**9)
    output = executor.run(plan_of(0, [new_request("A", PROMPT, [1, 2])], tokens={"A": 5}))
    assert output.draft_token_ids == {"A": REFERENCE[1:4]}


def test_requests_of_one_step_may_share_blocks():
    executor = ScriptedExecutor.standalone(8, 4)
    output = executor.run(
        plan_of(
            0,
            [new_request("A", PROMPT, [1, 2]), new_request("B", PROMPT, [1, 3], computed=4)],
            tokens={"A": 5, "B": 1},
        )
    )
    assert output.sampled_token_ids == [[REFERENCE[0]], [REFERENCE[0]]]


def test_block_copies_are_made_before_anything_is_computed():
    executor = started()
    copied = new_request("B", PROMPT, [3, 4], computed=4)
    output = executor.run(plan_of(1, [copied], tokens={"B": 1}, block_copies=[BlockCopy(1, 3)]))
    assert output.sampled_token_ids == [[REFERENCE[0]]]


def test_errors_are_answered_once():
    executor = started()
    executor.errors["A"] = "out of luck"
    output = executor.run(plan_of(1, cached=known("A", 5, 1), tokens={"A": 1}))
    assert (output.errors, output.sampled_token_ids) == ({"A": "out of luck"}, [[]])
    assert executor.errors == {}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (plan_of(1, cached=known("B", 5, 1), tokens={"B": 1}), "E2: request 'B' is planned"),
        (plan_of(1, cached=known("A", 5, 2), tokens={"A": 1}), "E4: .* counts 7 .* executor 6"),
        (plan_of(1, cached=known("A", 5, 1), tokens={"A": 2}), "I4: .* 5 to 6 are scheduled"),
        (plan_of(1, cached=known("A", 5, 1), tokens={"A": 0}), "I4: "),
        (plan_of(1, [new_request("B", PROMPT, [3])], tokens={"B": 5}), "I4: a table of 1"),
        (plan_of(1, [new_request("B", PROMPT, [0, 1])], tokens={"B": 5}), "I4: block 0"),
        (plan_of(1, [new_request("B", PROMPT, [8, 1])], tokens={"B": 5}), "I4: block 8"),
        (
            plan_of(1, [new_request("B", PROMPT, [3, 4], computed=4)], tokens={"B": 1}),
            r"E4: request 'B': position 0 \(block 3\) holds nothing",
        ),
        (
            plan_of(1, [new_request("B", [5, 1, 7, 8, 9], [1, 4], computed=4)], tokens={"B": 1}),
            r"E4: request 'B': position 1 \(block 1\) holds what another history",
        ),
    ],
)
def test_wrong_plans_are_refused(plan, message):
    with pytest.raises(InvariantError, match=message):
        started().run(plan)


def test_without_verification_wrong_memory_changes_the_answer():
    executor = ScriptedExecutor.standalone(8, 4, verify=False)
    executor.run(plan_of(0, [new_request("A", PROMPT, [1, 2])], tokens={"A": 5}))
    executor.memory.write([1], 2, 12345)
    output = executor.run(plan_of(1, cached=known("A", 5, 1), tokens={"A": 1}))
    assert output.sampled_token_ids != [[REFERENCE[1]]]


def test_ended_requests_are_forgotten():
    executor = started()
    executor.run(plan_of(1, finished_req_ids=["A", "never seen"]))
    with pytest.raises(InvariantError, match=r"^E2"):
        executor.run(plan_of(2, cached=known("A", 5, 1), tokens={"A": 1}))


def test_memory_reads_what_was_written_through_the_table():
    memory = PagedMemory(4, 2)
    for position in range(3):
        memory.write([3, 1], position, 10 + position)
    assert list(memory.read([3, 1], 3)) == [10, 11, 12]
    assert list(memory.read([1], 2)) == [12, 0]
    assert memory.word([3, 1], 2) == 12
    memory.copy_block(3, 2)
    assert list(memory.read([2], 2)) == [10, 11]
    memory.clear()
    assert list(memory.read([2, 1], 4)) == [0, 0, 0, 0]
