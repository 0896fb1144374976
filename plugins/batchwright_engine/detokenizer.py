"""Turn output tokens into text, piece by piece, and find stop strings in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from batchwright.protocols import Tokenizer

REPLACEMENT = "\ufffd"
"""Text that a tokenizer gives for bytes that are no whole character, or none yet."""

_MOST_HELD: Final = 3
"""Bytes of an unfinished character at most; what is before them is certain."""
_MOST_BYTES: Final = 4
"""Bytes of a character at most, and so its tokens."""
_MOST_WINDOW: Final = 16
"""Tokens at most that are decoded again with each new one."""
_CONTEXT: Final = 8
"""Tokens of them that are kept when they are too many."""

Decode = Callable[[Sequence[int]], str]


class Detokenizer:
    """The text of one request's output.

    Text is given out as soon as no later token can change it: not while it ends in
    the middle of a character, nor while its end is the beginning of a stop string.
    A token is decoded together with the last few before it, since how it reads (a leading
    space, a joined character) depends on them. The work is linear in the number of tokens.

    Bytes that belong to no character read U+FFFD, and the characters around them stay.
    (A decoder with byte fallback, asked for all at once, gives up the whole run of bytes.)

    Args:
        tokenizer: Decodes token ids; None: there is no text.
        stop: Strings that end the output; the first to appear counts.
        min_tokens: Stop strings are not looked for before so many tokens.

    Attributes:
        text: The certain text; it ends before a stop string that was found.
        stopped_by: The stop string that was found.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, stop: Sequence[str] = (), min_tokens: int = 0
    ) -> None:
        self._decode = tokenizer.decode if tokenizer is not None else None
        self._stop = tuple(stop)
        self._min_tokens = min_tokens
        self._num_tokens = 0
        self._num_given = 0
        self._window: list[int] = []  # the last tokens: context, then those of held text
        self._num_context = 0  # tokens of the window whose text is certain
        self._read = ""  # the window's text
        self._num_certain = 0  # characters of it that are in ``text``
        self._anchor: list[int] = []  # tokens that read well, to decode others behind them
        self.text = ""
        self.stopped_by: str | None = None

    def append(self, token_ids: Sequence[int]) -> int:
        """Take in new tokens; ``text`` grows, ``stopped_by`` may be set.

        Returns:
            Number of tokens of the output: up to the one that completed a stop string.
        """
        if self._decode is None:
            return len(token_ids)
        for index, token_id in enumerate(token_ids):
            if self.stopped_by is not None:
                return index
            self._num_tokens += 1
            piece = self._piece(token_id, self._decode)
            if piece:
                self._search(piece)
        return len(token_ids)

    def take(self, *, final: bool = False) -> str:
        """The text that can be given out now and was not before.

        Args:
            final: No more tokens will come: give out what was held back, too.
        """
        if self._decode is None:
            return ""
        if final and self.stopped_by is None:
            self.text += self._read[self._num_certain :]
            self._num_certain = len(self._read)
        held_back = 0 if final or not self._stop else self._num_held_back()
        end = len(self.text) - held_back
        new = self.text[self._num_given : end]
        self._num_given = max(self._num_given, end)
        return new

    def _piece(self, token_id: int, decode: Decode) -> str:
        """Take in a token; the text that is certain since then."""
        window = [*self._window, token_id]
        read = decode(window)
        if REPLACEMENT not in read and len(read) > self._num_certain:  # nearly all of them
            piece = read[self._num_certain :]
            self._settle(window[self._num_context :], decode)
            return piece
        if read == self._read and (read or len(window) > _CONTEXT) and not decode([token_id]):
            return ""  # a token without text, as special ones are: it need not be kept
        held = ""
        if not read.startswith(self._read[: self._num_certain]):
            # With this byte, a run whose beginning is out was given up: begin another one.
            held = self._read[self._num_certain :]
            window, self._num_context, self._num_certain = [token_id], 0, 0
            read = decode(window)
        if read.endswith(REPLACEMENT):
            return held + self._hold(window, read, decode)
        piece = read[self._num_certain :]
        if piece:
            self._settle(window[self._num_context :], decode)
        else:
            self._num_context = len(window)
            self._set_window(window, read, 0, decode)
        return held + piece

    def _hold(self, window: list[int], read: str, decode: Decode) -> str:
        """Keep back a text's end that may be a part of a character."""
        context, pending = window[: self._num_context], window[self._num_context :]
        certain = read[: self._num_certain]
        if certain and REPLACEMENT not in certain:
            self._anchor = context
        num_broken = len(read) - len(read.rstrip(REPLACEMENT))
        if num_broken > 1:
            found = self._behind_broken(pending, decode)
            if found is not None:
                size, character = found
                broken = decode(window[:-size])[self._num_certain :]
                self._settle(window[-size:], decode)
                return broken + character
        num_held = num_broken if len(pending) <= _MOST_HELD else min(num_broken, _MOST_HELD)
        piece = read[self._num_certain : len(read) - num_held]
        self._set_window(window, read, num_held, decode)
        return piece

    def _behind_broken(self, pending: list[int], decode: Decode) -> tuple[int, str] | None:
        """The character that the last tokens are if those before them are broken bytes.

        Returns:
            Number of its tokens, and its text.
        """
        for size in range(1, min(_MOST_BYTES + 1, len(pending))):
            last = pending[-size:]
            anchor = self._anchor or last  # behind itself it reads as behind any other
            alone, read = decode(anchor), decode([*anchor, *last])
            character = read[len(alone) :]
            if character and REPLACEMENT not in character and read.startswith(alone):
                return size, character
        return None

    def _settle(self, window: list[int], decode: Decode) -> None:
        """Keep tokens as context, all of whose text is certain."""
        self._window, self._num_context = window, len(window)
        self._read = decode(window)
        self._num_certain = len(self._read)

    def _set_window(self, window: list[int], read: str, num_held: int, decode: Decode) -> None:
        """Keep context and tokens of held text, not too many of them."""
        num_dropped = len(window) - _CONTEXT
        if len(window) > _MOST_WINDOW:
            window = window[num_dropped:]
            read = decode(window)
            self._num_context = max(0, self._num_context - num_dropped)
            self._num_certain = 0
        self._window, self._read = window, read
        self._num_certain = max(self._num_certain, len(read) - num_held)

    def _search(self, piece: str) -> None:
        """Append a piece of text, and cut it where a stop string begins."""
        searched = len(self.text)
        self.text += piece
        if not self._stop or self._num_tokens < self._min_tokens:
            return
        found = [
            (at, stop)
            for stop in self._stop
            if (at := self.text.find(stop, max(0, searched - len(stop) + 1))) >= 0
        ]
        if found:
            at, self.stopped_by = min(found)
            self.text = self.text[:at]

    def _num_held_back(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        if self.stopped_by is not None:
            return 0
        longest = max((len(stop) for stop in self._stop), default=1) - 1
        for length in range(min(longest, len(self.text)), 0, -1):
            if any(stop.startswith(self.text[-length:]) for stop in self._stop):
                return length
        return 0
