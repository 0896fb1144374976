"""The torch executor, driven by plans written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from batchwright.clock import MonotonicClock
from batchwright.exceptions import ModelError
from batchwright.messages import TokenLogprobs
from batchwright.protocols.attention import AttentionBackend
from batchwright_engine.attention.numba_paged import NumbaAttention
from batchwright_engine.attention.torch_paged import TorchAttention
from batchwright_engine.phases import Phases

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}),
    ("qwen2", {}),
    ("qwen3", {}),
    ("mistral", {"sliding_window": 9}),
    ("gemma2", {"sliding_window": 9, "query_pre_attn_scalar": 8}),
    ("gemma3_text", {"sliding_window": 9, "query_pre_attn_scalar": 8}),
    ("phi3", {"sliding_window": 9}),
    ("granite", {"logits_scaling": 3.0}),
    ("gpt_oss", {"sliding_window": 9, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("olmo2", {}),
    ("smollm3", {"no_rope_layers": [1, 0, 1]}),
    ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    ("gpt2", {}),
    ("gpt_neox", {"rotary_pct": 0.5}),
    ("opt", {"ffn_dim": 64, "word_embed_proj_dim": 48}),
    ("jamba", {"attn_layer_period": 1, "attn_layer_offset": 0, "num_experts": 2}),
]

each_backend = pytest.mark.parametrize(
    "backend", [TorchAttention, NumbaAttention], ids=lambda b: b.name
)


def prompts(count: int, seed: int = 3, longest: int = 30) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(2, 97) for _ in range(rng.randint(3, longest))] for _ in range(count)]


@cache
def model_of(folder: Path) -> Any:
    """The model as transformers computes it."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def reference(folder: Path, prompt: list[int], count: int) -> list[int]:
    """Return the tokens that the model generates by itself, greedily."""
    answer = model_of(folder).generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        do_sample=False,
        min_new_tokens=count,
        max_new_tokens=count,
        eos_token_id=None,
        pad_token_id=0,
    )
    return list(answer[0, len(prompt) :].tolist())


@each_backend
@pytest.mark.parametrize(("kind", "changes"), MODELS, ids=[kind for kind, _ in MODELS])
def test_execute_equals_generate(
    kind: str,
    changes: dict[str, Any],
    backend: type[AttentionBackend],
    tiny_model: Callable[..., Path],
    make_driver: Any,
) -> None:
    """Chunks, staggered arrivals, preemption, prefix hits, other blocks: the same tokens."""
    folder = tiny_model(kind, **changes)
    texts = prompts(5)
    texts[3:] = [texts[0][:9] + text for text in texts[3:]]
    expected = [reference(folder, text, 12) for text in texts]
    driver = make_driver(folder, backend=backend)
    assert driver.info.tokenizer is None
    rng = random.Random(9)
    names = [f"r{i}" for i in range(5)]
    waiting = list(names)
    running: list[str] = []
    done: dict[str, list[int]] = {}
    num_hits = 0
    while waiting or running:
        if waiting and rng.random() < 0.5:
            name = waiting.pop(0)
            other = driver.live.get("r0")
            hit = other is not None and other.computed >= 9 and name in ("r3", "r4")
            driver.add(name, texts[names.index(name)], share="r0" if hit else None)
            num_hits += driver.live[name].computed > 0
            running.append(name)
        if running and rng.random() < 0.2:
            driver.preempt(rng.choice(running))
        some = [name for name in running if rng.random() < 0.8]
        driver.step({n: min(driver.live[n].num_new_tokens, rng.randint(1, 9)) for n in some})
        for name in list(running):
            if len(driver.live[name].outputs) >= 12:
                running.remove(name)
                done[name] = driver.finish(name).outputs
    assert expected == [done[name] for name in names]
    assert num_hits > 0


@each_backend
@pytest.mark.parametrize(("kind", "changes"), MODELS, ids=[kind for kind, _ in MODELS])
def test_logprobs_of_every_family(
    kind: str,
    changes: dict[str, Any],
    backend: type[AttentionBackend],
    tiny_model: Callable[..., Path],
    make_driver: Any,
) -> None:
    """Within 1e-4 of the model's own: chunks of prompts and decodes, beyond windows."""
    folder = tiny_model(kind, **changes)
    driver = make_driver(folder, backend=backend)
    texts = {f"r{i}": text for i, text in enumerate(prompts(3))}
    for name, text in texts.items():
        driver.add(name, text, logprobs=10)
    found: dict[str, list[TokenLogprobs]] = {name: [] for name in texts}
    while any(len(entries) < 6 for entries in found.values()):
        output = driver.step({name: min(driver.live[name].num_new_tokens, 7) for name in texts})
        for name, entries in output.logprobs.items():
            found[name] += entries
    for name, text in texts.items():
        tokens = [*text, *driver.live[name].outputs]
        with torch.inference_mode():
            likely = model_of(folder)(torch.tensor([tokens])).logits[0].log_softmax(-1)
        for row, entry in enumerate(found[name], len(text) - 1):
            pairs = dict([*entry.top, (entry.token_id, entry.logprob)])
            assert len(pairs) == 10
            assert likely[row, list(pairs)].tolist() == pytest.approx([*pairs.values()], abs=1e-4)


def test_execute_shares_prefix_blocks(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """A hit on blocks that were computed before, or are in the same step."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    common = prompts(1, seed=8)[0] + list(range(2, 14))
    texts = [[*common, 5, 6, 7], [*common, 9], [*common, 5, 6, 8, 10]]
    driver.add("a", texts[0])
    driver.give_blocks("a", len(texts[0]))
    driver.add("b", texts[1], share="a")
    assert driver.live["b"].computed >= 12
    driver.step({name: driver.live[name].num_new_tokens for name in ("a", "b")})
    driver.add("c", texts[2], share="a")
    answers = driver.run({"a": 8, "b": 8, "c": 8})
    assert {n: reference(folder, t, 8) for n, t in zip("abc", texts, strict=True)} == answers


def test_execute_answers_nothing_before_the_last_known_token(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """A chunk of a prompt brings no token; the chunk that ends it brings one."""
    driver = make_driver(tiny_model("llama"))
    driver.add("a", list(range(2, 12)))
    assert driver.step({"a": 6}).sampled_token_ids == [[]]
    assert len(driver.step({"a": 4}).sampled_token_ids[0]) == 1


def test_execute_notes_ends_without_tokens(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """A plan without grants drops what finished; the id may be used again."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    driver.add("a", [4, 5, 6])
    driver.run({"a": 2})
    driver.finish("a")
    assert driver.step({}).req_ids == []
    driver.add("a", [7, 8, 9, 10])
    assert reference(folder, [7, 8, 9, 10], 3) == driver.run({"a": 3})["a"]


def test_restart_takes_known_outputs(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """After a restart a request comes back with its outputs, and goes on as before."""
    folder = tiny_model("llama")
    expected = reference(folder, [4, 5, 6], 8)
    driver = make_driver(folder)
    driver.add("a", [4, 5, 6])
    driver.run({"a": 4})
    driver.executor.restart()
    before = driver.finish("a").outputs
    driver.finished = []
    driver.add("a", [4, 5, 6], outputs=before)
    assert expected == driver.run({"a": 8}, chunk=2)["a"]


def test_execute_truncates_to_what_the_scheduler_kept(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """An output that the scheduler threw away is computed again."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    driver.add("a", [4, 5, 6])
    driver.run({"a": 5})
    del driver.live["a"].outputs[3:]
    driver.live["a"].computed = 3 + 2
    assert reference(folder, [4, 5, 6], 8) == driver.run({"a": 8})["a"]


def test_execute_keeps_tokens_that_the_scheduler_has_yet_to_see(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """In a pipeline the next plan is made before the last one's tokens are known."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    driver.add("a", [4, 5, 6])
    first = driver.plan({"a": 3})
    driver.live["a"].computed = 3
    second = driver.plan({"a": 1})
    assert second.scheduled_cached_reqs.num_output_tokens[0] == 0
    tokens = [driver.executor.run(plan).sampled_token_ids[0][0] for plan in (first, second)]
    assert reference(folder, [4, 5, 6], 2) == tokens


@each_backend
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_execute_verifies_drafts(
    temperature: float,
    backend: type[AttentionBackend],
    tiny_model: Callable[..., Path],
    make_driver: Any,
) -> None:
    """Right or wrong, drafts change how many tokens come at once, never which."""
    folder = tiny_model("llama")
    driver = make_driver(folder, backend=backend)
    params = {"temperature": temperature, "seed": 3}
    driver.add("plain", [4, 5, 6], **params)
    expected = driver.run({"plain": 12})["plain"]
    driver.add("drafted", [4, 5, 6], **params)
    request = driver.live["drafted"]
    driver.run({"drafted": 1})
    rng = random.Random(1)
    most = 0
    while len(request.outputs) < 9:
        done = len(request.outputs)
        drafts = [t if rng.random() < 0.7 else 2 for t in expected[done : done + 3]]
        output = driver.step({"drafted": 1 + len(drafts)}, {"drafted": drafts})
        most = max(most, len(output.sampled_token_ids[0]))
    assert expected[: len(request.outputs)] == request.outputs
    assert most > 1


@pytest.mark.parametrize(
    ("params", "other"),
    [
        ({"seed": 7}, {"seed": 8}),
        ({"seed": 7, "top_k": 20}, {"seed": 7, "top_k": 21}),
        ({"seed": 7, "top_p": 0.8}, {"seed": 9, "top_p": 0.8}),
    ],
)
def test_seed_repeats_alone_beside_others_and_through_preemption(
    params: dict[str, Any], other: dict[str, Any], tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """The number for an output position depends on the seed and the position only."""
    driver = make_driver(tiny_model("llama"))
    text = [4, 5, 6, 7]
    driver.add("alone", text, temperature=1.5, **params)
    expected = driver.run({"alone": 20})["alone"]
    driver.add("beside", text, temperature=1.5, **params)
    for i, prompt in enumerate(prompts(4)):
        driver.add(f"x{i}", prompt, temperature=1.0, seed=i)
    driver.run({"beside": 6, "x0": 9, "x1": 4, "x2": 7, "x3": 2}, chunk=5)
    driver.preempt("beside")
    assert expected == driver.run({"beside": 20, "x1": 20}, chunk=3)["beside"]
    driver.add("other", text, temperature=1.5, **other)
    assert expected != driver.run({"other": 20})["other"]


def test_requests_without_seed_follow_the_model_seed_and_their_id(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """Same model seed and id: the same tokens; another of either: others."""
    folder = tiny_model("llama")

    def outputs(seed: int, name: str) -> list[int]:
        driver = make_driver(folder, seed=seed)
        driver.add(name, [4, 5, 6], temperature=1.5)
        return list(driver.run({name: 16})[name])

    assert outputs(1, "a") == outputs(1, "a")
    assert outputs(1, "a") != outputs(2, "a")
    assert outputs(1, "a") != outputs(1, "b")


def test_min_tokens_bans_the_ends(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """EOS and stop tokens cannot come before min_tokens outputs; afterwards they can."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    assert driver.info.eos_token_ids == (1,)
    plain = reference(folder, [4, 5, 6], 6)
    stops = tuple(dict.fromkeys(plain))
    driver.add("a", [4, 5, 6], min_tokens=4, stop_token_ids=stops)
    early = driver.run({"a": 4})["a"]
    assert not set(early) & {*stops, 1}
    driver.add("b", [4, 5, 6], min_tokens=0, stop_token_ids=stops)
    assert plain == driver.run({"b": 6})["b"]


def test_logprobs_are_those_of_the_model(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """One entry a token, before temperature; likeliest first; where asked for."""
    folder = tiny_model("qwen2")
    driver = make_driver(folder)
    driver.add("a", [4, 5, 6], temperature=2.0, seed=1, logprobs=3)
    driver.add("b", [4, 5, 6], logprobs=0)
    driver.add("c", [4, 5, 6])
    output = driver.step({"a": 3, "b": 3, "c": 3})
    likely = model_of(folder)(torch.tensor([[4, 5, 6]])).logits[0, -1].log_softmax(-1).detach()
    tokens = dict(zip(output.req_ids, output.sampled_token_ids, strict=True))
    assert {"a", "b"} == output.logprobs.keys()
    for name, entries in output.logprobs.items():
        assert tokens[name] == [entry.token_id for entry in entries]
        assert likely[tokens[name][0]].item() == pytest.approx(entries[0].logprob, abs=1e-4)
    top = output.logprobs["a"][0].top
    assert likely.topk(3).indices.tolist() == [token for token, _ in top]
    assert likely.topk(3).values.tolist() == pytest.approx([p for _, p in top], abs=1e-4)
    assert output.logprobs["b"][0].top == ()


def test_errors_end_one_request_alone(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """Foreign tokens, unknown ids, short tables, early drafts: the others go on."""
    folder = tiny_model("llama")
    driver = make_driver(folder)
    driver.add("good", [4, 5, 6])
    driver.add("foreign", [4, 97, 6])
    driver.add("unknown", [4, 5])
    driver.live["unknown"].known = True
    driver.add("adapted", [4, 5])
    plan = driver.plan({"good": 3, "foreign": 3, "unknown": 2, "adapted": 2})
    from attrs import evolve

    plan.scheduled_new_reqs[-1] = evolve(plan.scheduled_new_reqs[-1], adapter="sql")
    output = driver.executor.run(plan)
    assert {"foreign", "unknown", "adapted"} == output.errors.keys()
    assert "97" in output.errors["foreign"]
    assert "does not know" in output.errors["unknown"]
    assert "'sql'" in output.errors["adapted"]
    tokens = dict(zip(output.req_ids, output.sampled_token_ids, strict=True))
    assert reference(folder, [4, 5, 6], 1) == tokens["good"]
    assert [] == tokens["foreign"] == tokens["unknown"]


def test_errors_name_what_a_plan_gets_wrong(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """Too many tokens, too few blocks, drafts in the middle of a prompt."""
    driver = make_driver(tiny_model("llama"))
    for name in ("a", "b", "c", "d"):
        driver.add(name, [4, 5, 6, 7, 8])
    plan = driver.plan({"a": 6, "b": 5, "c": 3, "d": 6}, {"c": [1], "d": [97]})
    plan.scheduled_new_reqs[1].block_ids.pop()
    errors = driver.executor.run(plan).errors
    assert "schedules 6" in errors["a"]
    assert "do not hold" in errors["b"]
    assert "before the last known token" in errors["c"]
    assert "draft token" in errors["d"]


@each_backend
def test_logits_that_are_not_finite_end_one_request_alone(
    backend: type[AttentionBackend], tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """A token whose embedding is NaN harms only the request that holds it."""
    folder = tiny_model("llama")
    driver = make_driver(folder, backend=backend)
    model = driver.executor._loaded.model
    model.embeddings[50] = float("nan")
    driver.add("good", [4, 5, 6])
    driver.add("bad", [4, 50, 6])
    output = driver.step({"good": 3, "bad": 3})
    assert {"bad"} == output.errors.keys()
    assert "not finite" in output.errors["bad"]
    driver.finish("bad")
    driver.add("next", [7, 8, 9, 10])
    answers = driver.run({"good": 5, "next": 5})
    assert reference(folder, [4, 5, 6], 5) == answers["good"]
    assert reference(folder, [7, 8, 9, 10], 5) == answers["next"]


def test_table_grows_with_requests_tokens_and_blocks(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """More requests, longer ones and longer tables than it was made for."""
    folder = tiny_model("llama", max_position_embeddings=1024)
    driver = make_driver(folder, block_size=2, num_blocks=1000)
    long = prompts(1, seed=4, longest=30)[0] * 40
    long = long[:600]
    driver.add("long", long)
    for i, prompt in enumerate(prompts(70, longest=6)):
        driver.add(f"r{i}", prompt)
    counts = dict.fromkeys(driver.live, 2)
    answers = driver.run(counts, chunk=400)
    assert reference(folder, long, 2) == answers["long"]
    assert reference(folder, prompts(70, longest=6)[69], 2) == answers["r69"]


def test_penalties_count_what_a_request_has(
    tiny_model: Callable[..., Path], make_driver: Any
) -> None:
    """Beside plain requests, with drafts, through preemption: the same tokens."""
    folder = tiny_model("llama")
    penalties = {"frequency_penalty": 2.0, "repetition_penalty": 1.5}
    driver = make_driver(folder)
    driver.add("alone", [4, 5, 6], **penalties)
    expected = driver.run({"alone": 12})["alone"]
    assert expected != reference(folder, [4, 5, 6], 12)
    driver.add("plain", [7, 8])
    driver.add("beside", [4, 5, 6], **penalties)
    driver.step({"plain": 2, "beside": 3})
    driver.step({"beside": 4}, {"beside": [*expected[1:3], 3]})
    driver.preempt("beside")
    answers = driver.run({"plain": 4, "beside": 12}, chunk=5)
    assert expected == answers["beside"]
    assert reference(folder, [7, 8], 4) == answers["plain"]


def test_phases_are_named(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """The time of a step is reported by phase."""
    driver = make_driver(tiny_model("llama"))
    phases = driver.executor.phases = Phases(MonotonicClock())
    driver.add("a", [4, 5, 6])
    driver.run({"a": 2})
    seconds = phases.seconds
    assert all(seconds[p] > 0 for p in ("input preparation", "forward", "sampling", "bookkeeping"))
    assert seconds["scheduling"] == 0


def test_limits_are_measured(tiny_model: Callable[..., Path], make_driver: Any) -> None:
    """The model's products alone, and how fast memory is copied."""
    executor = make_driver(tiny_model("llama")).executor
    limits = executor.measure_limits(8)
    assert limits.keys() == {
        "products_seconds",
        "plain_products_seconds",
        "memory_bytes_per_second",
    }
    assert all(value > 0 for value in limits.values())
    executor.close()
    assert executor.measure_limits(8) == {}


def test_weights_of_other_sizes_end_the_start(
    tiny_model: Callable[..., Path], tmp_path: Path, make_driver: Any
) -> None:
    """A contradiction to config.json is named; no request is answered with made-up tokens."""
    folder = tiny_model("llama")
    weights = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.down_proj.weight"
    weights[name] = weights[name][:, :-2].contiguous()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(
        ModelError, match=r"down_proj.weight is \[48, 62\] .* config.json makes it \[48, 64\]"
    ):
        make_driver(tmp_path)
