"""Conformance of executors."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from batchwright.assembly import Assembly
from batchwright.clock import VirtualClock
from batchwright.config import Config
from batchwright.messages import CachedRequestData, ModelOutput, NewRequestData, SchedulerOutput
from batchwright.protocols import Executor, ModelInfo, ModelSettings, SchedulerBase
from batchwright.request import Request
from batchwright.testing.conformance.base import LIMITS, Conformance
from batchwright.testing.driver import Driver
from batchwright.testing.requests import make_request, prompt_tokens

NUM_BLOCKS = 24
_UNLUCKY = "r3"  # shares no prefix, so that no other request goes on from its blocks
_NOTHING = SchedulerOutput(
    step_id=0,
    scheduled_new_reqs=[],
    scheduled_cached_reqs=CachedRequestData(),
    num_scheduled_tokens={},
    total_num_scheduled_tokens=0,
)


class ExecutorConformance(Conformance):
    """Check an executor: answers depend on the request alone, not on how it was planned.

    Attributes:
        model: Path of the model that it loads.
        attention: Attention backends that it may choose from, by name.
        dtype: Type of the model's computation; in less than float32 equal logits may be
            rounded to different answers in different batches.
    """

    kind: ClassVar[str] = "executor"
    model: ClassVar[str] = ""
    attention: ClassVar[Sequence[str]] = ()
    dtype: ClassVar[str] = "float32"

    def test_model_is_described(self) -> None:
        _, info = self._loaded()
        assert info.name
        assert info.max_model_len >= 2
        assert info.vocab_size >= 1
        assert info.kv_bytes_per_token >= 0
        assert all(0 <= token < info.vocab_size for token in info.eos_token_ids)

    def test_answers_do_not_depend_on_the_plan(self) -> None:
        """Alone with room, or in chunks, in company, with prefixes shared, preempted."""
        expected = self._alone()
        assert self._together() == expected

    def test_answers_are_the_same_after_a_restart(self) -> None:
        """Lost results are computed again."""
        expected = self._alone()
        assert self._together(restart_at=6) == expected

    def test_answers_are_the_same_on_another_thread(self) -> None:
        """Loaded on this one, as an engine does that computes in the background."""
        executor, info = self._ready(NUM_BLOCKS)
        if not executor.runs_in_background:
            return
        scheduler = self._scheduler(NUM_BLOCKS, info, max_num_batched_tokens=24)
        with ThreadPoolExecutor(1) as thread:
            work = thread.submit(self._run, scheduler, executor, self._requests(info))
        assert work.result() == self._alone()

    def test_request_that_cannot_be_taken_up_ends_alone(self) -> None:
        """The others are answered as if it had never come, with plans in flight or without."""
        expected = self._alone()
        del expected[_UNLUCKY]
        for depth in (1, 2, 3):
            executor, info = self._ready(NUM_BLOCKS)
            self._make_unlucky(executor)
            scheduler = self._scheduler(NUM_BLOCKS, info, depth, max_num_batched_tokens=24)
            driver, requests = Driver(scheduler, executor, depth=depth), self._requests(info)
            driver.add(*requests)
            driver.finish()
            ends = {r.request_id: r.finish for r in requests if r.finish is not None}
            assert [name for name, end in ends.items() if end.reason == "error"] == [_UNLUCKY]
            assert "could not take it up: OverflowError: too large" in ends[_UNLUCKY].detail
            outputs = driver.recorder.outputs
            assert {name: row for name, row in outputs.items() if row} == expected

    def test_unknown_request_may_be_removed(self) -> None:
        """A request may have ended before it was added, or while it was taken up."""
        executor, _ = self._ready(NUM_BLOCKS)
        executor.remove_request("never seen")

    def _make_unlucky(self, executor: Executor) -> None:
        """Let an executor fail while it takes up one request, after it has done so."""
        add, execute = executor.add_request, executor.execute

        def add_request(request: NewRequestData) -> None:
            add(request)
            if request.req_id == _UNLUCKY:
                raise OverflowError("too large")

        def execute_others(plan: SchedulerOutput) -> ModelOutput:
            assert _UNLUCKY not in plan.num_scheduled_tokens
            assert plan.total_num_scheduled_tokens == sum(plan.num_scheduled_tokens.values())
            return execute(plan)

        executor.add_request = add_request  # type: ignore[method-assign]
        executor.execute = execute_others  # type: ignore[method-assign]

    def test_plan_without_tokens_is_accepted(self) -> None:
        """It may have ends to note, or nothing at all."""
        executor, _ = self._ready(NUM_BLOCKS)
        output = executor.run(_NOTHING)
        assert list(output.req_ids) == []

    def test_every_granted_request_is_answered(self) -> None:
        """Once, in one row, a token where its last known token was computed."""
        executor, info = self._ready(NUM_BLOCKS)
        scheduler = self._scheduler(NUM_BLOCKS, info)
        for request in self._requests(info):
            scheduler.add_request(request)
        for _ in range(12):
            plan = scheduler.schedule()
            output = executor.run(plan)
            assert sorted(output.req_ids) == sorted(plan.num_scheduled_tokens)
            for request_id, tokens in zip(output.req_ids, output.sampled_token_ids, strict=True):
                assert len(tokens) == (scheduler.requests[request_id].num_new_tokens == 0)
                assert all(0 <= token < info.vocab_size for token in tokens)
            scheduler.update_from_output(plan, output)

    def _alone(self) -> dict[str, list[int]]:
        """Each request in a run of its own, prompt and all at once."""
        executor, info = self._ready(400)
        answers: dict[str, list[int]] = {}
        for request in self._requests(info):
            scheduler = self._scheduler(400, info, enable_prefix_caching=False)
            answers |= self._run(scheduler, executor, [request])
            executor.restart()
        return answers

    def _together(self, *, restart_at: int | None = None) -> dict[str, list[int]]:
        executor, info = self._ready(NUM_BLOCKS)
        scheduler = self._scheduler(NUM_BLOCKS, info, max_num_batched_tokens=24)
        return self._run(scheduler, executor, self._requests(info), restart_at=restart_at)

    def _run(
        self,
        scheduler: SchedulerBase,
        executor: Executor,
        requests: Sequence[Request],
        *,
        restart_at: int | None = None,
    ) -> dict[str, list[int]]:
        driver = Driver(scheduler, executor)
        driver.add(*requests)
        for step in range(restart_at or 0):
            driver.turn()
            if step + 1 == restart_at:
                driver.restart()
        driver.finish()
        assert all(request.finish.reason == "length" for request in requests if request.finish)
        return driver.recorder.outputs

    def _requests(self, info: ModelInfo) -> list[Request]:
        shared = prompt_tokens("shared", 12, vocab_size=info.vocab_size)
        prompts = [
            shared[: n % 3 * 6] + prompt_tokens(str(n), 3 + 2 * n, vocab_size=info.vocab_size)
            for n in range(7)
        ]
        return [make_request(f"r{n}", prompt, 8 + n) for n, prompt in enumerate(prompts)]

    def _loaded(self) -> tuple[Executor, ModelInfo]:
        executor: Executor = self.build()
        return executor, executor.load(
            ModelSettings(
                path=self.model, dtype=self.dtype, max_model_len=200, attention=self._backends()
            )
        )

    def _ready(self, num_blocks: int) -> tuple[Executor, ModelInfo]:
        executor, info = self._loaded()
        executor.allocate_kv(num_blocks, 4)
        return executor, info

    def _backends(self) -> list[Any]:
        found = []
        for name in self.attention:
            config = Config.from_dict({"attention": {"backend": name}})
            assembly = Assembly(config, plugins=self.plugins(), clock=VirtualClock())
            found.append(assembly.make(config.once("attention"), LIMITS))
        return found

    def _scheduler(
        self, num_blocks: int, info: ModelInfo, depth: int = 1, **options: Any
    ) -> SchedulerBase:
        config = {
            "scheduler": {
                "max_num_seqs": 4,
                "pipeline_depth": depth,
                "max_num_batched_tokens": options.pop("max_num_batched_tokens", 256),
            },
            "model": {"max_model_len": min(200, info.max_model_len)},
            "kv": {"num_blocks": num_blocks, "block_size": 4, **options},
        }
        return Assembly(
            Config.from_dict(config), plugins=self.plugins(), clock=VirtualClock()
        ).scheduler()
