"""Our own traces: JSON lines, each of which may say all that a request can."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright.number_bounds import BOUNDS, MAX_TOKEN_ID, WHOLE, Bounds, token_ids_problem
from batchwright.option import option
from batchwright.protocols import Arrival, Workload
from batchwright_lab.workload.lines import TraceFile
from batchwright_lab.workload.prompts import OWN_TOKENS, SHARED_TOKENS, pieces

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Jsonl"]

_FIELDS: Final[dict[str, type[Any]]] = {
    "request_id": str,
    "client": str,
    "group": str,
    "slo_class": str,
    "hints": dict,
}
_NUMBERS: Final = {
    **{name: BOUNDS[name] for name in ("priority", "deadline", "max_tokens")},
    "output_token_id": Bounds(0, MAX_TOKEN_ID, WHOLE),
}
_WORDS: Final[dict[type[Any], str]] = {str: "a string", dict: "an object"}
_OWN: Final = ("time", "prompt_tokens", "output_tokens", "prompt_token_ids", "prefix")
_KEYS: Final = (*_OWN, *_FIELDS, *_NUMBERS)


@frozen
class Options:
    """Options of our own traces."""

    path: str = option("", "File of the trace, relative to the TOML file.")


class Jsonl(Workload):
    """One JSON object a line, in order of ``time`` (seconds).

    ``{"time": 0.5, "prompt_tokens": 800, "output_tokens": 120}`` is a whole one. Instead of
    ``prompt_tokens`` a line may have ``prompt_token_ids``. ``"prefix": {"system": 512}``
    begins the prompt with pieces that all prompts have in common whose prefixes name them in
    the same order. Further keys: ``request_id``, ``client``, ``group``, ``slo_class``,
    ``priority``, ``deadline`` (seconds after the arrival), ``hints``, ``max_tokens``,
    ``output_token_id``.
    """

    name = "jsonl"
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self.file = TraceFile(options.path, ctx.folder, f"{ctx.path}.path")
        self._names: dict[str, int] = {}

    @classmethod
    def recognizes(cls, head: str) -> bool:
        return head.startswith("{") and '"time"' in head and '"output_tokens"' in head

    def arrivals(self) -> Iterator[Arrival]:
        last = None
        for number, record in self.file.objects():
            arrival = self._arrival(number, record)
            if last is not None and arrival.time < last:
                raise self.file.broken(number, f"a time not before {last}", arrival.time)
            last = arrival.time
            yield arrival
        if last is None:
            raise self.file.empty()

    @property
    def max_output_tokens(self) -> int:
        return self._facts[1]

    @property
    def rate(self) -> float | None:
        return self._facts[0]

    @cached_property
    def _facts(self) -> tuple[float | None, int]:
        """Rate and longest output, from one reading."""
        times, longest = [], 0
        for arrival in self.arrivals():
            times.append(arrival.time)
            longest = max(longest, arrival.num_output_tokens)
        span = times[-1] - times[0]
        return ((len(times) - 1) / span if span > 0 else None), longest

    def _arrival(self, number: int, record: dict[str, Any]) -> Arrival:
        unknown = sorted(set(record).difference(_KEYS))
        if unknown:
            raise self.file.broken(number, f"only keys of {list(_KEYS)}", unknown[0])
        return Arrival(
            time=self.file.seconds(number, "time", record.get("time")),
            prompt_token_ids=self._prompt(number, record),
            num_output_tokens=self.file.count(number, "output_tokens", record.get("output_tokens")),
            **self._fields(number, record),
        )

    def _fields(self, number: int, record: dict[str, Any]) -> dict[str, Any]:
        fields = {name: record[name] for name in _FIELDS if record.get(name) is not None}
        for name, value in fields.items():
            if not isinstance(value, _FIELDS[name]) or not _is_sound(value):
                raise self.file.broken(number, f"{name}, {_WORDS[_FIELDS[name]]}", value)
        for name, bounds in _NUMBERS.items():
            value = record.get(name)
            if value is not None:
                unmet = bounds.unmet(value)
                if unmet is not None:
                    raise self.file.broken(number, f"{name}, {unmet}", value)
                fields[name] = value
        return fields

    def _prompt(self, number: int, record: dict[str, Any]) -> Any:
        given = record.get("prompt_token_ids")
        if given is not None:
            is_list = isinstance(given, list) and bool(given)
            if not is_list or token_ids_problem("prompt_token_ids", given) is not None:
                expected = f"prompt_token_ids, token ids from 0 to {MAX_TOKEN_ID}"
                raise self.file.broken(number, expected, given)
            return given
        total = self.file.count(number, "prompt_tokens", record.get("prompt_tokens"))
        prefix = record.get("prefix", {})
        if not isinstance(prefix, dict):
            raise self.file.broken(number, "prefix, an object of lengths by name", prefix)
        shared = [
            (self._token_of(name), self.file.count(number, f"prefix.{name}", length))
            for name, length in prefix.items()
        ]
        left = total - sum(length for _, length in shared)
        if left < 0:
            raise self.file.broken(number, "a prefix within prompt_tokens", prefix)
        own = [(OWN_TOKENS + number, 1), (1, left - 1)] if left else []
        return pieces([*shared, *own])

    def _token_of(self, name: str) -> int:
        """The token that stands for a piece of this name."""
        return SHARED_TOKENS + self._names.setdefault(name, len(self._names))


def _is_sound(value: Any) -> bool:
    """Return True if a text can be written."""
    return not isinstance(value, str) or not any("\ud800" <= c <= "\udfff" for c in value)
