"""Gathered keys and values that are kept: the same answers as gathered anew."""

from __future__ import annotations

import random

import pytest
import torch
from attrs import define, field

from batchwright.messages import BlockCopy
from batchwright.protocols.attention import LayerCall
from batchwright.testing.attention import Case, Shape, make_batch
from batchwright_engine.attention.torch_paged import TorchAttention, TorchAttentionOptions

SIZE, HEADS, GROUP, WIDTH, BLOCKS = 4, 2, 2, 8, 600
LAYERS: tuple[int | None, ...] = (None, 9, None)


@define(slots=False)
class Pair:
    """Two backends that get the same steps: one keeps, the other does not."""

    seed: int
    kept_mib: int = 1
    tables: dict[str, list[int]] = field(factory=dict)
    lens: dict[str, int] = field(factory=dict)
    num_filled: int = 0
    num_kept: int = 0

    def __attrs_post_init__(self) -> None:
        self.random = torch.Generator().manual_seed(self.seed)
        self.free = list(range(1, BLOCKS))
        random.Random(self.seed).shuffle(self.free)
        self.backends = [self._backend(self.kept_mib), self._backend(0)]

    def _backend(self, kept_mib: int) -> TorchAttention:
        case = Case(
            requests=[],
            num_kv_heads=HEADS,
            group_size=GROUP,
            head_size=WIDTH,
            block_size=SIZE,
            windows=LAYERS,
        )
        options = TorchAttentionOptions(chunk_tokens=64, kept_mib=kept_mib)
        backend = TorchAttention(options, None)  # type: ignore[arg-type]
        backend.allocate(case.spec, BLOCKS)
        return backend

    def join(self, name: str, num_tokens: int, share: str | None = None) -> None:
        """Add a request that has nothing computed, or another's whole blocks."""
        table = list(self.tables[share][: self.lens[share] // SIZE]) if share else []
        self.tables[name], self.lens[name] = table, len(table) * SIZE
        self.step({name: max(1, num_tokens - self.lens[name])})

    def leave(self, name: str) -> None:
        del self.lens[name], self.tables[name]

    def step(self, grants: dict[str, int]) -> None:
        """Compute tokens of some requests on both, and compare."""
        shapes = [Shape(self.lens[name], count) for name, count in grants.items()]
        for name, count in grants.items():
            self.lens[name] += count
            while len(self.tables[name]) * SIZE < self.lens[name]:
                self.tables[name].append(self.free.pop())
        batch = make_batch([self.tables[name] for name in grants], shapes, SIZE)
        for backend in self.backends:
            backend.begin_step(batch)
        groups = self.backends[0]._kernels._work[None].groups
        self.num_kept += sum(group.kept is not None for group in groups)
        self.num_filled += sum(group.kept is not None and group.rows is None for group in groups)
        total = sum(grants.values())
        for layer in range(len(LAYERS)):
            shape = (total, HEADS, WIDTH)
            query = torch.randn(total, HEADS * GROUP, WIDTH, generator=self.random)
            key, value = (torch.randn(shape, generator=self.random) for _ in range(2))
            call = LayerCall(layer, query, key, value, scale=0.4)
            one, other = (backend.forward(call) for backend in self.backends)
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)

    def decode(self) -> None:
        """One token for every request."""
        self.step(dict.fromkeys(self.lens, 1))


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_without_keeping(seed: int) -> None:
    """Requests join, share, leave, pause, are copied to; groups split and grow."""
    chance = random.Random(seed)
    pair = Pair(seed)
    for number in range(60):
        event = chance.random()
        if len(pair.lens) < 3 or event < 0.06:
            share = chance.choice(list(pair.lens)) if pair.lens and chance.random() < 0.5 else None
            pair.join(f"r{number}", chance.randint(2, 90), share)
        elif event < 0.1:
            pair.leave(chance.choice(list(pair.lens)))
        elif event < 0.15:
            pair.step(dict.fromkeys(chance.sample(list(pair.lens), 2), 1))
        elif event < 0.18:
            source, target = (pair.tables[n][0] for n in chance.sample(list(pair.lens), 2))
            for backend in pair.backends:
                backend.copy_blocks([BlockCopy(source, target)])
        else:
            pair.decode()
    assert pair.num_filled > 0


def test_a_group_is_kept_from_its_second_step_and_read_from_its_third() -> None:
    """A new block in the middle does not matter; who joins does."""
    pair = Pair(1)
    pair.join("a", 6)
    pair.join("b", 7)
    counts = []
    for _ in range(5):
        pair.decode()
        counts.append((pair.num_kept, pair.num_filled))
    assert counts == [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)]
    pair.join("c", 10)
    pair.decode()
    assert (pair.num_kept, pair.num_filled) == (4, 3)
    pair.decode()
    pair.decode()
    assert (pair.num_kept, pair.num_filled) == (6, 4)


def test_nothing_is_kept_beyond_its_memory() -> None:
    """A group that would need more is gathered at every step."""
    pair = Pair(2)
    for number in range(30):
        pair.join(f"r{number}", 60 + number)
    assert pair.backends[0]._kernels._keeper is not None
    pair.backends[0]._kernels._keeper._most_bytes = 400_000
    for _ in range(3):
        pair.decode()
    groups = pair.backends[0]._kernels._work[None].groups
    kept = [group.kept is not None for group in groups]
    assert any(kept)
    assert not all(kept)
    used = sum(len(t) * 4 for rooms in pair.backends[0]._kernels._keeper._rooms for t in rooms)
    assert used <= 400_000


def test_copied_blocks_are_read_anew() -> None:
    """Kept keys of a block that is copied over are stale."""
    pair = Pair(3)
    for name in ("a", "b"):
        pair.join(name, 8)
    for _ in range(3):
        pair.decode()
    assert pair.num_filled == 1
    for backend in pair.backends:
        backend.copy_blocks([BlockCopy(pair.tables["a"][0], pair.tables["b"][0])])
    pair.decode()
    assert pair.num_filled == 1


def test_a_group_that_grows_by_a_block_is_gathered_anew() -> None:
    """Kept keys lie densely: there is no room for another block."""
    pair = Pair(4)
    for name in ("a", "b"):
        pair.join(name, 10)
    counts = []
    for _ in range(6):
        pair.decode()
        counts.append(pair.num_filled)
    assert counts == [0, 0, 0, 1, 2, 3]
