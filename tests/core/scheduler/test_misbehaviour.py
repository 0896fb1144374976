"""Components that do what no author means to do: each is named, nobody else suffers."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.protocols import Gate, Resource
from batchwright.testing import make_plugin
from batchwright.verdicts import ADMIT, Park, Reject, Skip, Stop


def bench_with(make_bench: Any, kind: str, cls: type, **options: Any) -> Any:
    """A bench that uses one class of mine; it replaces the default list of its kind."""
    name = cls.name  # type: ignore[attr-defined]
    if kind in ("gate", "control", "limit", "resource", "observer"):
        options["sections"] = {kind: [{"use": name}], **options.get("sections", {})}
    else:
        options[kind] = name
    return make_bench(plugins=[make_plugin(**{kind: [cls]})], **options)


class TestKeysThatAreNoStrings:
    """A request put aside under such a key would never come back, or never leave the scan."""

    @pytest.mark.parametrize("verdict", [Skip, Park])
    @pytest.mark.parametrize("phase", ["candidate", "sized"])
    @pytest.mark.parametrize("key", [5, ("a",), ["a"]])
    def test_key_of_a_gate(self, make_bench: Any, verdict: Any, phase: str, key: Any) -> None:
        def judge(self: Any, request: Any, *rest: Any) -> Any:
            return verdict(key) if request.request_id == "bad" else ADMIT

        b = bench_with(make_bench, "gate", type("G", (Gate,), {"name": "g", phase: judge}))
        b.add("bad", 4, 2)
        b.add("good", 4, 2)
        assert b.step() == {"good": 4}
        assert f"must be a string, not {key!r}" in b.finished["bad"].detail

    def test_verdicts_say_what_they_expect(self) -> None:
        for make in (
            lambda: Park(None),
            lambda: Skip(None, 3),
            lambda: Stop(1),
            lambda: Reject(None),
        ):  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="must be a string"):
                make()
        assert Skip().until is None

    @pytest.mark.parametrize("key", [5, ["a"]])
    def test_key_of_a_resource(self, make_bench: Any, key: Any) -> None:
        class Short(Resource):
            name = "short"

            def reserve(self, request: Any) -> bool:
                return bool(request.request_id != "bad")

            def release(self, request: Any) -> None: ...

            def waits_for(self, request: Any) -> Any:
                return key

        b = bench_with(make_bench, "resource", Short)
        b.add("bad", 4, 2)
        b.add("good", 4, 2)
        assert b.step() == {"good": 4}
        assert f"waits_for() returned {key!r}, expected a key" in b.finished["bad"].detail
