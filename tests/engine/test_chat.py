"""Conversations as clients write them: what is taken, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright_engine.chat import MessageError, normalize_messages, unplaced_key

USER = {"role": "user", "content": "Hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("message", "normalized"),
    [
        (USER, USER),
        ({"role": "user", "content": PARTS}, {"role": "user", "content": "a\nb"}),
        ({**USER, "name": "ada"}, {**USER, "name": "ada"}),
        ({**USER, "name": None, "refusal": None, "annotations": []}, USER),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {"x": 1}}}],
            },
        ),
        (
            {"role": "tool", "content": "7", "tool_call_id": "c"},
            {"role": "tool", "content": "7", "tool_call_id": "c"},
        ),
    ],
)
def test_messages_are_taken_as_clients_write_them(message: Any, normalized: Any) -> None:
    assert normalize_messages([message]) == [normalized]
    assert normalize_messages([normalized]) == [normalized]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Hi", 'messages[1]: expected {"role": "...", "content": "..."}, got "Hi"'),
        ({"content": "x"}, "messages[1].role: expected a non-empty string, got null"),
        ({"role": "user"}, "messages[1].content: expected a string or a list of text parts, got "),
        ({"role": "user", "content": None}, "messages[1].content: expected a string or a list"),
        ({"role": "user", "content": []}, "messages[1].content: expected a string or a list"),
        ({**USER, "nmae": "x"}, "messages[1].nmae: unknown key. Did you mean 'name'? Keys: role"),
        ({**USER, "name": 7}, "messages[1].name: expected a non-empty string, got 7"),
        (
            {"role": "user", "content": [PARTS[0], {"type": "image_url", "image_url": "u"}]},
            "messages[1].content[1].type: expected 'text', got \"image_url\"; other parts cannot",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"function": "f"}]},
            "messages[1].tool_calls[0]: expected {",
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "["}}]},
            'messages[1].tool_calls[0].function.arguments: expected a JSON object, got "["',
        ),
    ],
)
def test_message_that_cannot_be_put_is_named_with_its_key(message: Any, problem: str) -> None:
    with pytest.raises(MessageError) as caught:
        normalize_messages([USER, message])
    assert str(caught.value).startswith(problem)


def test_tool_calls_that_a_template_would_drop_are_found() -> None:
    messages = normalize_messages([USER, {"role": "assistant", "tool_calls": [CALL]}])
    assert unplaced_key(messages, "{{ message.content }}") == "messages[1].tool_calls"
    assert unplaced_key(messages, "{{ message.tool_calls }}") == ""
    assert unplaced_key([USER], "{{ message.content }}") == ""
