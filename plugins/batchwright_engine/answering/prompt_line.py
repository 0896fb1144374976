"""One line of a file of prompts: a prompt, how to sample it, whose it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import Factory, frozen

from batchwright.number_bounds import number_problem, token_ids_problem
from batchwright.sampling_params import SamplingParams
from batchwright.suggest import did_you_mean
from batchwright_engine.chat import MessageError, normalize_messages

if TYPE_CHECKING:
    from batchwright_engine.prompt import Prompt

__all__ = ["LineError", "PromptLine", "parse_json_line"]

_PROMPTS: Final = ("prompt", "messages", "prompt_token_ids")
_IDS: Final = ("id", "request_id")
_SAMPLING: Final = tuple(field.name for field in attrs.fields(SamplingParams))
_FIELDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "client": ((str,), "a string"),
    "group": ((str,), "a string"),
    "slo_class": ((str,), "a string"),
    "hints": ((dict,), "an object"),
    "cache_salt": ((str,), "a string"),
}
_NUMBERS: Final = ("priority", "deadline")
_KEYS: Final = (*_PROMPTS, *_IDS, "sampling", *_NUMBERS, *_FIELDS, *_SAMPLING)


class LineError(ValueError):
    """A line is broken: names the key, what was found, what was expected."""


@frozen(kw_only=True)
class PromptLine:
    """A prompt to be answered.

    Args:
        number: Line in the file, from 1.
        request_id: Its id; ``line-N`` where the line gives none.
        prompt: Text, a conversation or token ids.
        sampling: Its sampling parameters.
        fields: Other fields of Request; ``deadline`` in seconds after submission.
    """

    number: int
    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    fields: Mapping[str, Any] = Factory(dict)

    @property
    def source(self) -> dict[str, Any]:
        """The prompt under the key that the line gave it by."""
        if isinstance(self.prompt, str):
            return {"prompt": self.prompt}
        is_chat = bool(self.prompt) and isinstance(self.prompt[0], Mapping)
        return {"messages" if is_chat else "prompt_token_ids": list(self.prompt)}


def parse_json_line(line: str, number: int, sampling: SamplingParams) -> PromptLine:
    """Read one JSON object.

    Args:
        line: Its text.
        number: Line in the file, from 1.
        sampling: Sampling parameters unless the line has its own.

    Raises:
        LineError: It is no object, or a key of it is unknown or holds another type.
    """
    try:
        table = json.loads(line, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise LineError(
            f"expected a JSON object, got invalid JSON: {error.msg} (column {error.colno})"
        ) from None
    except RecursionError:
        raise LineError("expected a JSON object, got one nested too deeply") from None
    except LineError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise LineError(f"expected a JSON object, got invalid JSON: {error}") from None
    if not isinstance(table, dict):
        raise LineError(f"expected a JSON object, got {_short(table)}")
    for key in table:
        _check_known(key, _KEYS)
    return PromptLine(
        number=number,
        request_id=_request_id(table, number),
        prompt=_prompt(table),
        sampling=_sampling(table, sampling),
        fields=dict(_fields(table)),
    )


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise LineError(f"{twice}: is given twice")
    return table


def _check_known(key: str, known: Sequence[str], path: str = "") -> None:
    if key not in known:
        key = _short(key)[1:-1]
        raise LineError(
            f"{path}{key}: unknown key.{did_you_mean(key, known)} Keys: {', '.join(known)}"
        )


def _request_id(table: Mapping[str, Any], number: int) -> str:
    given = [key for key in _IDS if key in table]
    if len(given) > 1:
        raise LineError("id: is given as request_id, too; keep one of them")
    if not given:
        return f"line-{number}"
    value = table[given[0]]
    if not isinstance(value, str) or not value:
        raise LineError(f"{given[0]}: expected a non-empty string, got {_short(value)}")
    return value


def _prompt(table: Mapping[str, Any]) -> Prompt:
    given = [key for key in _PROMPTS if key in table]
    if len(given) != 1:
        found = f"got {' and '.join(given)}" if given else "got none of them"
        raise LineError(f"expected one of {', '.join(_PROMPTS)}; {found}")
    (key,) = given
    value = table[key]
    if key == "prompt" and isinstance(value, str):
        return value
    if key == "prompt_token_ids" and isinstance(value, list) and value:
        problem = token_ids_problem(key, value)
        if problem is not None:
            raise LineError(problem)
        return value
    if key == "messages":
        return _messages(value)
    expected = {"prompt": "a string", "prompt_token_ids": "a list of token ids"}
    raise LineError(f"{key}: expected {expected[key]}, got {_short(value)}")


def _is_list(value: object, is_item: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_item, value))


def _messages(value: Any) -> Prompt:
    """A conversation, as it is given; the engine normalizes it once more."""
    try:
        normalize_messages(value)
    except MessageError as error:
        raise LineError(str(error)) from None
    return value  # type: ignore[no-any-return]


def _sampling(table: Mapping[str, Any], default: SamplingParams) -> SamplingParams:
    nested = table.get("sampling", {})
    if not isinstance(nested, dict):
        raise LineError(f"sampling: expected an object, got {_short(nested)}")
    for key in nested:
        _check_known(key, _SAMPLING, "sampling.")
        if key in table:
            raise LineError(f"sampling.{key}: is given as {key}, too; keep one of them")
    own = {key: table[key] for key in _SAMPLING if key in table} | nested
    try:
        sampling = attrs.evolve(default, **own)
    except TypeError:
        key = next(k for k in ("stop", "stop_token_ids") if k in own)
        raise LineError(f"{key}: expected a list, got {_short(own[key])}") from None
    problem = sampling.problem()
    if problem is not None:
        raise LineError(problem)
    return sampling


def _fields(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, (types, expected) in _FIELDS.items():
        value = table.get(key)
        if value is None:
            continue
        if not isinstance(value, types):
            raise LineError(f"{key}: expected {expected}, got {_short(value)}")
        yield key, value
    for key in _NUMBERS:
        if table.get(key) is not None:
            problem = number_problem(key, table[key])
            if problem is not None:
                raise LineError(problem)
            yield key, table[key]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
