"""Text comes out as soon as it is certain, and never later than that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright_engine.detokenizer import REPLACEMENT, Detokenizer


class Pieces:
    """A tokenizer whose tokens are the given byte strings."""

    def __init__(self, *pieces: bytes | str) -> None:
        self.pieces = [p.encode() if isinstance(p, str) else p for p in pieces]

    def encode(self, text: str) -> list[int]:
        raise AssertionError("not used")

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        raise AssertionError("not used")

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.pieces[i] for i in token_ids).decode(errors="replace")


def stream(pieces: Sequence[bytes | str], stop: Sequence[str] = ()) -> tuple[list[str], str]:
    """Return the text after each piece, and at the end."""
    text = Detokenizer(Pieces(*pieces), stop)
    given_out = []
    for index in range(len(pieces)):
        text.append([index])
        given_out.append(text.take())
    return given_out, text.take(final=True)


@pytest.mark.parametrize(
    ("pieces", "given_out", "rest"),
    [
        (["DEF", "G", "HI", "J"], ["", "", "", ""], ""),
        (["DEF", "X"], ["", "DEFX"], ""),
        (["DEF"], [""], "DEF"),
        (["ab", "cD", "E"], ["ab", "c", ""], "DE"),
        (["abDEFGHIJcd"], ["ab"], ""),
    ],
)
def test_holds_back_only_what_may_become_a_stop(
    pieces: list[str], given_out: list[str], rest: str
) -> None:
    assert stream(pieces, ["DEFGHIJ"]) == (given_out, rest)


def test_the_first_of_two_stops_counts() -> None:
    text = Detokenizer(Pieces("a", "bcd", "e"), ["cde", "bc"])
    text.append([0, 1, 2])
    assert (text.text, text.stopped_by) == ("a", "bc")
    assert text.take() == "a"


def test_stop_on_the_last_token() -> None:
    text = Detokenizer(Pieces("a", "END"), ["END"])
    text.append([0])
    assert text.take() == "a"
    text.append([1])
    assert (text.take(final=True), text.text, text.stopped_by) == ("", "a", "END")


def test_stop_strings_wait_for_min_tokens() -> None:
    text = Detokenizer(Pieces("x"), ["x"], min_tokens=3)
    text.append([0, 0])
    assert text.stopped_by is None
    text.append([0])
    assert (text.text, text.stopped_by) == ("xx", "x")


def test_characters_are_whole() -> None:
    """A character of three bytes in three tokens appears with its last one."""
    euro = "€".encode()
    assert stream([b"a", *[euro[i : i + 1] for i in range(3)]]) == (["a", "", "", "€"], "")


def test_broken_bytes_come_at_the_end() -> None:
    assert stream([b"a", b"\xe2\x82"]) == (["a", ""], "\ufffd")


@given(
    text=st.text(alphabet="aDEé€😀", max_size=30),
    cuts=st.lists(st.integers(0, 100), max_size=20),
    stop=st.lists(st.text(alphabet="aDEé", min_size=1, max_size=4), max_size=2),
)
def test_streamed_text_equals_the_whole(text: str, cuts: list[int], stop: list[str]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    detokenizer = Detokenizer(Pieces(*pieces), stop)
    given_out = ""
    for index in range(len(pieces)):
        detokenizer.append([index])
        given_out += detokenizer.take()
    given_out += detokenizer.take(final=True)
    found = [at for s in stop if (at := text.find(s)) >= 0]
    expected = text[: min(found)] if found else text
    assert (detokenizer.stopped_by is not None) is bool(found)
    # Which stop is seen first may depend on the pieces, but only where they overlap.
    assert text.startswith(given_out)
    assert given_out == detokenizer.text
    assert len(given_out) <= len(expected) + max(map(len, stop), default=0)


class ByteFallback:
    """A tokenizer with byte fallback, whose decoder gives up a run of bytes as a whole.

    Tokens below 256 are bytes; the others are the given pieces, ``▁`` a space, and an
    empty one is a special token, which is left out before anything is joined.
    """

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.num_decoded = 0

    encode = encode_chat = Pieces.encode

    def decode(self, token_ids: Sequence[int]) -> str:
        self.num_decoded += len(token_ids)
        return self.join(token_ids, lambda run: REPLACEMENT * len(run))

    def join(self, token_ids: Sequence[int], broken: Callable[[bytes], str]) -> str:
        parts = []
        known = [token for token in token_ids if token < 256 or self.pieces[token - 256]]
        for is_byte, run in groupby(known, lambda token: token < 256):
            ids = list(run)
            try:
                parts.append(bytes(ids).decode() if is_byte else self._text(ids))
            except UnicodeDecodeError:
                parts.append(broken(bytes(ids)))
        return "".join(parts).removeprefix(" ")

    def _text(self, token_ids: Sequence[int]) -> str:
        return "".join(self.pieces[token - 256] for token in token_ids).replace("▁", " ")


PIECES = ("▁", "a", "▁b", "", "▁€", "�")
RUNS = st.sampled_from([*(list(c.encode()) for c in "é€😀 \n"), [0xE2], [0x9F, 0x98], [0x80]])


@settings(max_examples=300, deadline=None)
@given(st.lists(RUNS | st.sampled_from(range(256, 256 + len(PIECES))).map(lambda t: [t])))
def test_broken_bytes_leave_the_characters_around_them_alone(runs: list[list[int]]) -> None:
    tokens = [token for run in runs for token in run]
    tokenizer = ByteFallback(*PIECES)
    detokenizer, streamed = Detokenizer(tokenizer), ""
    for token in tokens:
        detokenizer.append([token])
        streamed += detokenizer.take()
    streamed += detokenizer.take(final=True)
    expected = tokenizer.join(tokens, lambda run: run.decode(errors="replace"))
    assert streamed.replace(REPLACEMENT, "") == expected.replace(REPLACEMENT, "")
    if REPLACEMENT not in tokenizer.decode(tokens):
        assert streamed == tokenizer.decode(tokens)


@pytest.mark.parametrize("tokens", [[0x80], [0xE2, 0xC3], [259], [256, 259], [0xE2, 259], [261]])
def test_runs_without_text_take_linear_time(tokens: list[int]) -> None:
    """Counted in tokens that are decoded, not in seconds."""
    tokenizer = ByteFallback(*PIECES)
    detokenizer = Detokenizer(tokenizer)
    counts = []
    for _ in range(2):
        detokenizer.append(tokens * (2000 // len(tokens)))
        counts.append(tokenizer.num_decoded)
    assert counts[0] <= 80 * 2000
    assert counts[1] <= 2.05 * counts[0]


def test_tokens_behind_a_stop_string_are_not_of_the_output() -> None:
    text = Detokenizer(Pieces("a", "EN", "D!", "b"), ["END"])
    assert text.append([0]) == 1
    assert text.append([1, 2, 3, 3]) == 2
    assert (text.text, text.append([3])) == ("a", 0)
