"""Fixtures for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from batchwright import ModelOutput, Request, SamplingParams, Scheduler, VirtualClock
from batchwright.assembly import scheduler_from_config

Install = Callable[..., Path]


@pytest.fixture
def install_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Lay down a distribution as pip would: its metadata, and modules by name."""
    before = set(sys.modules)

    def install(
        name: str, version: str = "1.0", *, entry_points: dict[str, str], **modules: str
    ) -> Path:
        site = tmp_path / f"site-{name}-{version}"
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[batchwright]", *lines, ""]))
        for module, source in modules.items():
            (site / f"{module}.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(site)
        return site

    yield install
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


class Bench:
    """Drives one scheduler step by step; every sampled token is new, so nothing stops."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.kv = scheduler.kv_manager
        self.finished: dict[str, Any] = {}
        self.outputs: dict[str, list[int]] = {}
        self.plan: Any = None
        self._next_token = 1_000_000

    def tokens(self, count: int) -> list[int]:
        """Tokens that no other request has."""
        start = self._next_token
        self._next_token += count
        return list(range(start, start + count))

    def add(
        self,
        name: str,
        prompt: int | Sequence[int],
        max_tokens: int | None,
        *,
        sampling: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Request:
        params = {"max_tokens": max_tokens, "ignore_eos": True, **(sampling or {})}
        request = Request(
            request_id=name,
            prompt_token_ids=self.tokens(prompt) if isinstance(prompt, int) else prompt,
            sampling_params=SamplingParams(**params),
            **fields,
        )
        self.scheduler.add_request(request)
        return request

    def schedule(self) -> dict[str, int]:
        self.plan = self.scheduler.schedule()
        return self.plan.num_scheduled_tokens

    def update(self, tokens: dict[str, list[int]] | None = None) -> Any:
        """Answer the last plan: one new token wherever one is due, unless given."""
        rows = []
        for request_id in self.plan.num_scheduled_tokens:
            request = self.scheduler.requests.get(request_id)
            due = request is not None and request.num_new_tokens <= 0
            given = (tokens or {}).get(request_id)
            rows.append(given if given is not None else self.tokens(1) if due else [])
        outputs = self.scheduler.update_from_output(
            self.plan, ModelOutput(list(self.plan.num_scheduled_tokens), rows)
        )
        for request_id, new in zip(outputs.req_ids, outputs.new_token_ids, strict=True):
            self.outputs.setdefault(request_id, []).extend(new)
        self.finished.update(outputs.finished)
        audit = list(self.kv.audit(self.scheduler.held_blocks()))
        assert audit == []
        return outputs

    def step(self) -> dict[str, int]:
        """One whole step; what it granted."""
        granted = dict(self.schedule())
        self.update()
        return granted

    def steps(self, count: int) -> list[dict[str, int]]:
        return [self.step() for _ in range(count)]

    def run(self, count: int, seconds: float = 1.0) -> list[dict[str, int]]:
        """Steps that take so long each."""
        granted = []
        for _ in range(count):
            granted.append(self.step())
            self.scheduler.clock.advance(seconds)
        return granted

    def begins(self, name: str, steps: int, arrive: Callable[[int], object]) -> list[int]:
        """In which steps of a second a request is granted tokens, while others arrive.

        Args:
            name: Whose.
            steps: How many.
            arrive: Adds what arrives before a step, given its number.
        """
        found = []
        for step in range(steps):
            arrive(step)
            if name in self.run(1)[0]:
                found.append(step)
        return found

    def order(self, seconds: float = 0.0) -> list[str]:
        """Requests in order of their first grants from now on, until the end."""
        served: dict[str, None] = {}
        while self.scheduler.has_unfinished:
            served.update(dict.fromkeys(self.run(1, seconds)[0]))
        return list(served)

    def drain(self, limit: int = 10_000) -> None:
        """Step until nothing is left."""
        for _ in range(limit):
            if not self.scheduler.has_unfinished:
                assert self.kv.num_free_blocks == self.kv.num_usable_blocks
                return
            self.step()
        raise AssertionError(f"not done after {limit} steps: {self.scheduler.requests}")

    @property
    def free(self) -> int:
        return self.kv.num_free_blocks


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench() -> MakeBench:
    """Build a bench: the most used options by name, anything else as sections."""

    def make(
        *,
        block_size: int = 16,
        usable: int = 1000,
        budget: int = 2048,
        plugins: Sequence[object] = (),
        kv: dict[str, Any] | None = None,
        max_model_len: int | None = None,
        sections: dict[str, Any] | None = None,
        **scheduler: Any,
    ) -> Bench:
        config = {
            "scheduler": {"max_num_batched_tokens": budget, **scheduler},
            "kv": {"block_size": block_size, "num_blocks": usable + 1, **(kv or {})},
            **({"model": {"max_model_len": max_model_len}} if max_model_len else {}),
            **(sections or {}),
        }
        return Bench(scheduler_from_config(config, clock=VirtualClock(), plugins=plugins))

    return make
