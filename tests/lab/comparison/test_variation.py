"""Values of ``--vary``."""

from __future__ import annotations

import pytest

from batchwright.exceptions import ConfigError
from batchwright_lab.comparison.variation import Variation, read_variations


def test_nothing_varies() -> None:
    assert read_variations([]) == [Variation()]
    assert Variation().label == ""


def test_every_combination_is_made() -> None:
    found = read_variations(["scheduler.victim=lifo,random", "kv.num_blocks=10,20"])
    assert [variation.label for variation in found] == [
        "victim=lifo, num_blocks=10",
        "victim=lifo, num_blocks=20",
        "victim=random, num_blocks=10",
        "victim=random, num_blocks=20",
    ]
    assert found[0].overrides == ("scheduler.victim=lifo", "kv.num_blocks=10")


def test_commas_within_brackets_quotes_and_braces_belong_to_the_value() -> None:
    (one, two, three) = read_variations(['a.b=[1, 2], "x, y" ,{c = 1, d = 2}'])
    assert one.overrides == ("a.b=[1, 2]",)
    assert two.overrides == ('a.b="x, y"',)
    assert three.overrides == ("a.b={c = 1, d = 2}",)


def test_value_may_hold_an_equals_sign() -> None:
    assert read_variations(["a.b=x=1"])[0].label == "b=x=1"


@pytest.mark.parametrize("text", ["", "a.b", "a.b=", "=1", "a.b=,"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--vary .*expected key.path=VALUE,VALUE"):
        read_variations([text])


@pytest.mark.parametrize(
    ("text", "option"), [("scheduler.policy=a,b", "--policy"), ("scheduler.seed=1,2", "--seeds")]
)
def test_what_other_options_vary_is_refused(text: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"is what {option} is for"):
        read_variations([text])


def test_value_said_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="says a value twice"):
        read_variations(["a.b=1,2,1"])
