"""Conversations as clients write them, made ready for a chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from batchwright.suggest import did_you_mean

__all__ = ["MessageError", "normalize_messages", "unplaced_key"]

_TEXTS: Final = ("name", "tool_call_id", "reasoning_content")
"""Keys that a template may know: texts."""
_ANSWERED: Final = ("refusal", "audio", "annotations", "function_call")
"""Keys of an answer that a client sends back; they are left out where they say nothing."""
_KEYS: Final = ("role", "content", "tool_calls", *_TEXTS)


class MessageError(ValueError):
    """A message cannot be put: names it, the key, what was found and what was expected."""


def normalize_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Bring messages into the form that chat templates take.

    ``content`` becomes a text: text parts are joined with a line break; null, beside
    ``tool_calls``, becomes an empty one. The arguments of tool calls become objects. Other
    keys with null are left out. What comes of it stays as it is, if it is normalized again.

    Args:
        messages: ``{"role": ..., "content": ...}`` each, in their order.

    Raises:
        MessageError: A message cannot be put.
    """
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence) or not messages:
        raise MessageError(f"messages: expected a list of messages, got {_short(messages)}")
    return [_normalize(f"messages[{i}]", message) for i, message in enumerate(messages)]


def unplaced_key(messages: Sequence[Mapping[str, Any]], template: str) -> str:
    """Path of tool calls that a chat template would drop without a word; empty if there are none.

    Args:
        messages: Normalized ones.
        template: The source of the chat template.
    """
    if "tool_calls" in template:
        return ""
    places = (f"messages[{i}].tool_calls" for i, m in enumerate(messages) if m.get("tool_calls"))
    return next(places, "")


def _normalize(path: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise MessageError(f'{path}: expected {{"role": "...", "content": "..."}}, got '
                           f"{_short(message)}")  # fmt: skip
    given = {key: value for key, value in message.items() if value is not None}
    for key in [key for key in _ANSWERED if not given.get(key, True)]:
        del given[key]
    for key in given:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS)
            shown = _short(key)[1:-1]
            raise MessageError(f"{path}.{shown}: unknown key.{hint} Keys: {', '.join(_KEYS)}")
    for key in ("role", *(key for key in _TEXTS if key in given)):
        if not isinstance(given.get(key), str) or not given[key]:
            found = _short(message.get(key))
            raise MessageError(f"{path}.{key}: expected a non-empty string, got {found}")
    calls = _calls(f"{path}.tool_calls", given.get("tool_calls", []))
    given["content"] = _content(f"{path}.content", given, is_optional=bool(calls))
    given.pop("tool_calls", None)
    return {**given, "tool_calls": calls} if calls else given


def _content(path: str, message: Mapping[str, Any], *, is_optional: bool) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and is_optional:
        return ""
    if not isinstance(content, list | tuple) or not content:
        expected = "a string or a list of text parts"
        hint = "; null is allowed beside tool_calls" if content is None else ""
        raise MessageError(f"{path}: expected {expected}, got {_short(content)}{hint}")
    return "\n".join(_part(f"{path}[{i}]", part) for i, part in enumerate(content))


def _part(path: str, part: Any) -> str:
    if not isinstance(part, Mapping):
        expected = '{"type": "text", "text": "..."}'
        raise MessageError(f"{path}: expected {expected}, got {_short(part)}")
    if part.get("type") != "text":
        raise MessageError(
            f"{path}.type: expected 'text', got {_short(part.get('type'))}; other parts cannot "
            "be answered"
        )
    if not isinstance(part.get("text"), str):
        raise MessageError(f"{path}.text: expected a string, got {_short(part.get('text'))}")
    text: str = part["text"]
    return text


def _calls(path: str, calls: Any) -> list[dict[str, Any]]:
    if not isinstance(calls, list | tuple):
        raise MessageError(f"{path}: expected a list of tool calls, got {_short(calls)}")
    return [_call(f"{path}[{i}]", call) for i, call in enumerate(calls)]


def _call(path: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        expected = '{"type": "function", "function": {"name": "...", "arguments": "..."}}'
        raise MessageError(f"{path}: expected {expected}, got {_short(call)}")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, Mapping):
        found = _short(function["arguments"])
        raise MessageError(f"{path}.function.arguments: expected a JSON object, got {found}")
    return {**call, "function": {**function, "arguments": dict(arguments)}}


def _short(value: object) -> str:
    try:
        text = json.dumps(value, default=repr)
    except (ValueError, RecursionError, TypeError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
