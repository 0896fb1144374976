"""Text of conversations, and the special tokens in it, whatever renders them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from batchwright.exceptions import ModelError

__all__ = ["render_chat", "special_tokens"]

_END: Final = "\u2063final message ends here\u2063"
"""Text that no message holds: it marks the last one's end among the template's own text."""


class Render(Protocol):
    """A chat template."""

    def __call__(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> str:
        """Render a conversation, with or without the beginning of an answer."""
        ...


def render_chat(render: Render, messages: Sequence[Mapping[str, Any]]) -> str:
    """Render a conversation up to where the assistant answers.

    A last message that is the assistant's is the beginning of the answer: the text ends
    with it, as it was given, so that the model goes on. An empty one says nothing.

    Raises:
        ModelError: The template leaves out the last message, or changes where it ends.
    """
    *before, last = messages
    content = last.get("content")
    if last.get("role") != "assistant" or not isinstance(content, str):
        return render(messages, True)
    if not content.strip():
        return render(before, True)
    text = render([*before, {**last, "content": content + _END}], False)
    if text.count(_END) != 1:
        raise ModelError(
            "the chat template does not show the last message, which is the assistant's, as "
            "it is, so that it cannot be continued; end with a message of the user"
        )
    return text[: text.index(_END)]


def special_tokens(added: Mapping[int, Any]) -> dict[str, int]:
    """Tokens that decoding leaves out, by how they are written.

    Args:
        added: Added tokens of a tokenizer (``content``, ``special``), by id.
    """
    return {token.content: i for i, token in added.items() if token.special and token.content}
