"""Samples over time stay few."""

from __future__ import annotations

from batchwright_lab.comparison.series import MOST_SAMPLES, Series


def test_samples_are_no_nearer_than_the_gap() -> None:
    series = Series()
    assert series.is_due(0.0)
    series.add(0.0, service={}, backlog={}, waiting=1, running=2, kv=0.5)
    assert not series.is_due(0.049)
    assert series.is_due(0.05)
    assert series.as_dict() == {
        "time": [0.0], "waiting": [1], "running": [2], "kv": [0.5], "service": {}, "backlog": {},
    }  # fmt: skip


def test_every_second_sample_goes_when_there_are_too_many() -> None:
    series, now = Series(), 0.0
    for step in range(10 * MOST_SAMPLES):
        now = 0.1 * step
        if series.is_due(now):
            service = {"a": step} if step < 100 else {"a": step, "b": 1}
            series.add(now, service=service, backlog={"a": 1}, waiting=step, running=0, kv=0.0)
    times = series.samples["time"]
    assert MOST_SAMPLES / 2 <= len(times) <= MOST_SAMPLES
    assert {len(column) for column in series.samples.values()} == {len(times)}
    assert series.samples["waiting"] == series.service["a"] == [round(10 * time) for time in times]
    assert series.service["b"] == [int(time >= 10) for time in times]
    assert times[0] == 0.0
    assert times[-1] > 0.9 * now


def test_client_that_comes_later_had_nothing_before() -> None:
    series = Series()
    for now, service in ((0.0, {"a": 1}), (1.0, {"b": 5, "a": 2})):
        series.add(now, service=service, backlog={}, waiting=0, running=0, kv=0.0)
    assert series.service == {"a": [1, 2], "b": [0, 5]}
