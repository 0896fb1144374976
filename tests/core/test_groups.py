"""Groups: remembered for a time after their last request, for any number of others."""

from __future__ import annotations

import math

import pytest

from batchwright.groups import Groups


def test_a_group_outlives_its_last_request_for_a_time() -> None:
    groups = Groups(10.0)
    groups.enter("g")
    groups.enter("g")
    groups.state("g", 3)["seen"] = 1
    groups.leave("g", 5.0)
    assert groups.next_expiry == math.inf
    groups.leave("g", 6.0)
    groups.purge(15.9)
    assert groups.state("g", 3) == {"seen": 1}
    groups.purge(16.0)
    with pytest.raises(KeyError):
        groups.state("g", 3)


def test_a_group_that_is_used_again_starts_its_time_anew() -> None:
    groups = Groups(10.0)
    for moment in (0.0, 8.0):
        groups.enter("g")
        groups.leave("g", moment)
    groups.purge(10.0)
    assert groups.state("g", 3) == {}
    assert groups.next_expiry == 18.0
    groups.enter("g")
    groups.purge(100.0)
    assert groups.state("g", 3) == {}


def test_forgetting_one_looks_at_no_other() -> None:
    """Else 10,000 conversations an hour would be looked through again at each one's end."""

    class Counted(dict[str, float]):
        looks = 0

        def items(self):  # type: ignore[no-untyped-def]
            for item in super().items():
                Counted.looks += 1
                yield item

    groups = Groups(10.0)
    groups._idle = Counted()
    for i in range(1000):
        groups.enter(str(i))
        groups.leave(str(i), float(i))
    for i in range(100):
        groups.purge(10.0 + i)
    with pytest.raises(KeyError):
        groups.state("99", 0)
    assert groups.state("100", 0) == {}
    assert Counted.looks <= 200
