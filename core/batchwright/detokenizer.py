"""Turns output tokens into text, piece by piece, and finds stop strings in it."""

from __future__ import annotations

from collections.abc import Sequence

from batchwright.protocols import Tokenizer

REPLACEMENT = "\ufffd"
"""What a tokenizer gives for bytes that are no whole character yet."""


class Detokenizer:
    """The text of one request's output.

    Text is given out as soon as no later token can change it: not while it ends in
    the middle of a character, nor while its end is the beginning of a stop string.

    Args:
        tokenizer: Decodes token ids; None: there is no text.
        stop: Strings that end the output; the first to appear counts.
        min_tokens: Stop strings are not looked for before so many tokens.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, stop: Sequence[str] = (), min_tokens: int = 0
    ) -> None:
        self._decode = tokenizer.decode if tokenizer is not None else None
        self._stop = tuple(stop)
        self._min_tokens = min_tokens
        self._token_ids: list[int] = []
        self._num_given = 0
        self._num_stable = 0
        self._context_start = 0
        self.text = ""
        self.stopped_by: str | None = None

    def append(self, token_ids: Sequence[int]) -> None:
        """Take in new tokens; ``text`` grows, ``stopped_by`` may be set."""
        if self._decode is None:
            return
        for token_id in token_ids:
            if self.stopped_by is not None:
                return
            self._token_ids.append(token_id)
            piece = self._undecoded()
            if piece and not piece.endswith(REPLACEMENT):
                self._context_start, self._num_stable = self._num_stable, len(self._token_ids)
                self._search(piece)

    def take(self, *, final: bool = False) -> str:
        """The text that can be given out now and was not before.

        Args:
            final: No more tokens will come: give out what was held back, too.
        """
        if self._decode is None:
            return ""
        if final and self.stopped_by is None:
            self.text += self._undecoded()
            self._num_stable = len(self._token_ids)
        held_back = 0 if final or not self._stop else self._num_held_back()
        end = len(self.text) - held_back
        new = self.text[self._num_given : end]
        self._num_given = max(self._num_given, end)
        return new

    def _undecoded(self) -> str:
        """Text of the tokens whose text may still change.

        The tokens of the last piece are decoded again as context, since how a token
        reads (a leading space, a joined character) depends on the one before it.
        """
        if self._decode is None:
            return ""
        before = self._decode(self._token_ids[self._context_start : self._num_stable])
        return self._decode(self._token_ids[self._context_start :])[len(before) :]

    def _search(self, piece: str) -> None:
        """Append a piece of text, and cut it where a stop string begins."""
        searched = len(self.text)
        self.text += piece
        if not self._stop or len(self._token_ids) < self._min_tokens:
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
