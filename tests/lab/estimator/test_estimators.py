"""Step times: the linear formula, interpolated tables, what was measured."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from batchwright import ConfigError, Scheduler, VirtualClock
from batchwright.assembly import Assembly, scheduler_from_config
from batchwright.config import Config
from batchwright.plugin import SchedulingPolicy
from batchwright.plugin_manager import PluginManager
from batchwright.protocols import StepShape
from batchwright.testing import make_plugin, make_request
from batchwright_lab.estimator.curves import Curve, Surface
from batchwright_lab.estimator.profiles import profile_names
from batchwright_lab.simulation.assembly import SimulatorAssembly

COEFFICIENTS = {
    "base": 1.0,
    "per_token": 0.5,
    "per_context_token": 0.25,
    "per_attention": 0.125,
    "per_request": 2.0,
    "overhead": 4.0,
}


def make(name: str, folder: Path = Path(), **options: Any) -> Any:
    table = {"scheduler": {"estimator": name}, "estimator": {name: options}}
    config = Config.from_dict(table, base_path=folder)
    assembly = Assembly(config, plugins=PluginManager.discover(), clock=VirtualClock())
    return assembly.make(config.once("estimator"))


# -- Shapes ------------------------------------------------------------------------------


def test_shape_adds_up_what_a_step_computes() -> None:
    shape = StepShape.of([(1, 10), (1, 20), (4, 100), (2, 0)])
    assert shape == StepShape(2, 30, 2, 6, 4 * 102.0 + 2 * 1.0)
    assert (shape.num_tokens, shape.num_requests) == (8, 4)
    assert StepShape(2, 30).with_prefill(4, 100).with_prefill(2) == shape
    assert StepShape().with_decodes(2, 30) == StepShape(2, 30)


# -- linear ------------------------------------------------------------------------------


def test_linear_is_the_formula() -> None:
    shape = StepShape.of([(1, 10), (1, 20), (4, 100)])
    seconds = 1.0 + 4.0 + 0.5 * 6 + 0.25 * 30 + 0.125 * 4 * 102 + 2.0 * 3
    assert make("linear", **COEFFICIENTS).step_time(shape) == seconds


def test_linear_takes_what_is_not_given_from_its_profile() -> None:
    own = make("linear", profile="rtx4090-llama3.1-8b", per_token=1.0)
    assert own.step_time(StepShape()) == 0.01629
    assert own.step_time(StepShape.of([(1, 0)])) == 0.01629 + 1.0


def test_linear_inverse_is_exact() -> None:
    linear = make("linear", **COEFFICIENTS)
    shape = StepShape(2, 30)
    for tokens in (2, 17, 1000):
        for context in (0, 300):
            deadline = linear.step_time(shape.with_prefill(tokens, context))
            assert linear.max_tokens(deadline, shape, context) == tokens
            assert linear.max_tokens(deadline - 1e-3, shape, context) == tokens - 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"profile": "rtx4090"}, "there is no profile 'rtx4090'. Profiles: rtx4090-llama3.1-8b"),
        ({"base": -1.0}, "estimator.linear.base: expected a number >= 0"),
        ({"base": 0.0, "per_token": 0.0, "per_request": 0.0}, "no time passes in a step"),
    ],
)
def test_linear_refuses_what_is_no_time(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected.replace(".", r"\.")):
        make("linear", **options)


def test_profile_may_be_a_folder(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    with pytest.raises(ConfigError, match=r"cannot be read: .*linear\.toml"):
        make("linear", tmp_path, profile="mine")
    (own / "linear.toml").write_text("base = 1.0\n")
    with pytest.raises(
        ConfigError,
        match=r"linear\.toml: .*: expected per_token, a number of seconds >= 0 and <= 3600",
    ):
        make("linear", tmp_path, profile="mine")
    (own / "linear.toml").write_text("base = \n")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        make("linear", tmp_path, profile="mine")


# -- Curves ------------------------------------------------------------------------------


def test_curve_is_straight_between_points_and_beyond() -> None:
    curve = Curve([(10, 30.0), (1, 3.0), (2, 4.0), (2, 6.0)])
    assert [curve(x) for x in (1, 1.5, 2, 6, 10, 20)] == [3.0, 4.0, 5.0, 17.5, 30.0, 61.25]
    assert curve(0) == 1.0
    assert curve(-50) == pytest.approx(0.3)  # never down to nothing
    assert Curve([(5, 7.0)])(100) == 7.0


def test_surface_may_have_holes() -> None:
    """x + 10 y, but y = 3 is missing where x = 1."""
    points = [((x, y), x + 10.0 * y) for x in (0, 1, 4) for y in (1, 3, 5) if (x, y) != (1, 3)]
    surface = Surface(points, 2)
    for x, y in ((0, 1), (0.5, 2), (1, 3), (3, 4), (8, 9)):
        assert surface(x, y) == pytest.approx(x + 10 * y)


def test_surface_of_four_variables_is_exact_for_linear_functions() -> None:
    def value(a: float, b: float, c: float, d: float) -> float:
        return 1 + 2 * a + 3 * b + 5 * c + 7 * d

    grid = [(a, b, c, d) for a in (1, 2) for b in (0, 4) for c in (1, 8) for d in (0, 16)]
    surface = Surface([(point, value(*point)) for point in grid], 4)
    assert surface(1.5, 3, 5, 10) == pytest.approx(value(1.5, 3, 5, 10))
    assert surface(4, 9, 12, 64) == pytest.approx(value(4, 9, 12, 64))


# -- table -------------------------------------------------------------------------------


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Attention q + kv + 10 n + kd, dense 100 a token, norms 10, heads 1000, all in us."""
    own = tmp_path / "mine"
    own.mkdir()
    grid = [
        (q, kv, n, kd)
        for q in (0, 16, 64)
        for kv in ((0, 100) if q else (0,))
        for n in (0, 1, 9)
        for kd in ((16, 160) if n else (0,))
        if q or n
    ]
    rows = [f"{q},{kv},{n},{kd},{q + kv + 10 * n + kd}" for q, kv, n, kd in grid]
    lines = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", *rows]
    (own / "attention.csv").write_text("\n".join(lines))
    dense = [
        f"{name},{t},{t * us}"
        for name, us in (("mlp", 100), ("layernorm", 10), ("embedding", 1))
        for t in (1, 1000)
    ]
    (own / "dense.csv").write_text("\n".join(["layer,tokens,time_us", *dense]))
    heads = [f"lm_head,{n},{1000 * n}" for n in (1, 10)]
    (own / "per_sequence.csv").write_text("\n".join(["layer,sequences,time_us", *heads]))
    (own / "profile.toml").write_text("num_layers = 2\nhidden_size = 1000\n")
    return own


def dense(tokens: int) -> float:
    return tokens * (2 * 100 + 2 * 2 * 10 + 1)


def test_table_adds_up_the_operators(profile: Path) -> None:
    table = make("table", profile.parent, profile="mine", per_request=0.0)
    decodes = StepShape.of([(1, 50), (1, 70), (1, 90)])
    assert table.step_time(decodes) * 1e6 == pytest.approx(dense(3) + 3000 + 2 * (30 + 70))
    prefill = StepShape.of([(40, 60)])
    assert table.step_time(prefill) * 1e6 == pytest.approx(dense(40) + 1000 + 2 * 100)
    mixed = StepShape.of([(40, 60), (1, 50), (1, 70)])
    assert table.step_time(mixed) * 1e6 == pytest.approx(dense(42) + 3000 + 2 * (40 + 60 + 20 + 60))


def test_table_counts_several_prefills_as_equal_ones(profile: Path) -> None:
    table = make("table", profile.parent, profile="mine", per_request=0.0)
    least = 1.6  # what attention takes for hardly anything: 16 us at 16, never under a tenth
    two = StepShape.of([(40, 60), (40, 60)])
    expected = dense(80) + 2000 + 2 * (100 + 100 - least)
    assert table.step_time(two) * 1e6 == pytest.approx(expected, rel=0.01)


def test_table_has_overheads(profile: Path) -> None:
    plain = make("table", profile.parent, profile="mine", per_request=0.0)
    slower = make("table", profile.parent, profile="mine", per_request=0.5, overhead=3.0)
    shape = StepShape.of([(1, 50), (1, 70)])
    assert slower.step_time(shape) == pytest.approx(plain.step_time(shape) + 3.0 + 2 * 0.5)


def test_table_splits_work_between_devices(profile: Path) -> None:
    """Half of each layer, and two all-reduces: 2 messages each, half the bytes each way."""
    table = make(
        "table",
        profile.parent,
        profile="mine",
        per_request=0.0,
        tensor_parallel=2,
        link_bandwidth=1e9,
        link_latency=7e-6,
    )
    shape = StepShape.of([(1, 50), (1, 70), (1, 90)])
    reduce = 2 * 7 + 3 * 1000 * 2 * 2 / 2 / 1e9 * 1e6
    compute = 3 * (2 * 100 / 2 + 2 * 2 * 10 + 1)
    expected = compute + 2 * 2 * reduce + 3000 + 2 * (30 + 70) / 2
    assert table.step_time(shape) * 1e6 == pytest.approx(expected)


def test_table_takes_layers_from_a_model(profile: Path) -> None:
    model = {"num_hidden_layers": 4, "hidden_size": 1000}
    (profile.parent / "config.json").write_text(json.dumps(model))
    two = make("table", profile.parent, profile="mine", per_request=0.0)
    four = make("table", profile.parent, profile="mine", per_request=0.0, model=".")
    shape = StepShape.of([(40, 60)])
    once = 40 + 1000  # embedding and LM head
    assert four.step_time(shape) * 1e6 - once == pytest.approx(
        2 * (two.step_time(shape) * 1e6 - once)
    )


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("dense.csv", None, "cannot be read"),
        ("dense.csv", "layer,time_us\n", "expected columns layer, tokens, time_us"),
        ("dense.csv", "layer,tokens,time_us\nmlp,1,fast\n", r"dense\.csv:2: expected numbers >= 0"),
        ("attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n", "lacks pure"),
        ("profile.toml", "num_layers = 0\n", "does not say how many layers there are"),
        ("profile.toml", "=", r"profile\.toml: is not valid TOML: .* \(at line 1, column 1\)"),
    ],
)
def test_broken_profile_is_named(profile: Path, file: str, text: str | None, expected: str) -> None:
    if text is None:
        (profile / file).unlink()
    else:
        (profile / file).write_text(text)
    with pytest.raises(ConfigError, match=expected):
        make("table", profile.parent, profile="mine")


def test_tensor_parallelism_needs_the_hidden_size(profile: Path) -> None:
    (profile / "profile.toml").write_text("num_layers = 2\n")
    with pytest.raises(ConfigError, match="tensor parallelism needs the hidden size"):
        make("table", profile.parent, profile="mine", tensor_parallel=2)
    (profile.parent / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no model's config"):
        make("table", profile.parent, profile="mine", model="config.json")


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_know_both_estimators(name: str) -> None:
    """Near one another for a step of the middle: 64 decodes at 1,000 tokens."""
    shape = StepShape(64, 64_000)
    table, linear = (make(kind, profile=name).step_time(shape) for kind in ("table", "linear"))
    assert table == pytest.approx(linear, rel=0.15)
    assert 0.01 < table < 0.06


# -- measured ----------------------------------------------------------------------------


def test_measured_reads_what_calibrate_writes(tmp_path: Path) -> None:
    lines = [f"{name} = {value}" for name, value in COEFFICIENTS.items() if name != "overhead"]
    (tmp_path / "measured.toml").write_text("\n".join(lines))
    measured, linear = make("measured", tmp_path, overhead=4.0), make("linear", **COEFFICIENTS)
    shape = StepShape.of([(1, 10), (4, 100)])
    assert measured.step_time(shape) == linear.step_time(shape)
    with pytest.raises(ConfigError, match=r"measured\.path: cannot be read: .*nowhere.*calibrate"):
        make("measured", tmp_path, path="nowhere.toml")


def test_a_byte_order_mark_is_no_part_of_a_profile(tmp_path: Path) -> None:
    lines = [f"{name} = {value}" for name, value in COEFFICIENTS.items() if name != "overhead"]
    (tmp_path / "measured.toml").write_text("\n".join(lines), encoding="utf-8-sig")
    shape = StepShape.of([(1, 10), (4, 100)])
    linear = make("linear", **{**COEFFICIENTS, "overhead": 0.0})
    assert make("measured", tmp_path).step_time(shape) == linear.step_time(shape)
    (tmp_path / "measured.toml").write_text("\n".join(lines), encoding="utf-16")
    with pytest.raises(ConfigError, match=r"measured\.toml: is UTF-16; save it as UTF-8"):
        make("measured", tmp_path)


@pytest.mark.parametrize("value", ["inf", "-1", "true", '"x"', "1e5"])
def test_a_coefficient_that_is_no_time_is_refused(tmp_path: Path, value: str) -> None:
    lines = [f"{name} = {value}" for name in COEFFICIENTS if name != "overhead"]
    (tmp_path / "measured.toml").write_text("\n".join(lines))
    with pytest.raises(
        ConfigError, match=r"measured\.toml: .*a number of seconds >= 0 and <= 3600"
    ):
        make("measured", tmp_path)


def test_tiny_coefficients_leave_room_for_many_tokens() -> None:
    names = [name for name in COEFFICIENTS if name not in ("base", "overhead")]
    tiny = make("linear", base=1.0, **dict.fromkeys(names, 5e-324))
    assert tiny.max_tokens(1.0, StepShape(1, 10)) >= 1 << 24
    assert tiny.max_tokens(0.5, StepShape(1, 10)) == 0


# -- What components see -------------------------------------------------------------------


class Asks(SchedulingPolicy):
    """Shortest step first."""

    name = "asks"

    def key(self, request):
        return self.ctx.estimator.step_time(StepShape.of([(request.num_prompt_tokens, 0)]))


def test_components_ask_the_configured_estimator() -> None:
    scheduler = scheduler_from_config(
        {"scheduler": {"policy": "asks"}, "estimator": {"linear": COEFFICIENTS}},
        plugins=[make_plugin(policy=[Asks])],
    )
    assert not scheduler.estimator_was_asked
    scheduler.add_request(make_request("long", 40, 1))
    scheduler.add_request(make_request("short", 4, 1))
    assert scheduler.estimator_was_asked
    assert list(scheduler.schedule().num_scheduled_tokens) == ["short", "long"]


@pytest.mark.parametrize("is_oracle", [False, True])
def test_truth_is_another_instance_unless_it_may_be_known(is_oracle: bool) -> None:
    table = {"simulation": {"oracle_estimator": is_oracle}}
    config = Config.from_dict(table)
    engine = SimulatorAssembly(config, clock=VirtualClock()).simulator()
    truth = engine.executor.ctx.components["estimator"]
    assert (engine.scheduler.components.estimator is truth) is is_oracle


def test_scheduler_without_a_model_has_an_estimator() -> None:
    estimator = Scheduler.from_config().components.estimator
    assert next(islice(estimator.decode_times(4, 100), 1)) == estimator.step_time(StepShape(4, 100))
