"""A model without weights: the next token is a pure function of the whole history."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable

from attrs import field, frozen, validators

from batchwright.request import Request

_MASK = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: odd, bits well mixed


@frozen(kw_only=True)
class ScriptedModel:
    """Answer tokens by hashing; equal seeds answer equally in every process.

    Its keys and values are one 64-bit word a position, which depends on every token up
    to there, as the hidden state of a transformer does. So a word that was computed
    behind another prefix, or that has been overwritten, makes the answer another one.

    Args:
        vocab_size: Token ids are below this.
        seed: Another seed is another model.
        eos_one_in: One answer in about so many is the end of sequence; 0: none is.
        eos_token_id: The token that ends a sequence; never answered for another reason
            while ``eos_one_in`` is set.
    """

    vocab_size: int = field(default=997, validator=validators.ge(2))
    seed: int = 0
    eos_one_in: int = field(default=0, validator=validators.ge(0))
    eos_token_id: int = 0

    def word(self, previous: int, token: int) -> int:
        """Return the content of a position: never 0, which stands for an empty slot.

        Args:
            previous: The word one position before; 0 at the first position.
            token: The token here.
        """
        mixed = ((previous ^ (token + 1)) * _MULTIPLIER + self.seed) & _MASK
        return (mixed ^ (mixed >> 29)) or 1

    def words(self, tokens: Iterable[int]) -> array[int]:
        """The words of a whole sequence, 8 bytes each."""
        previous, words = 0, array("Q")
        for token in tokens:
            previous = self.word(previous, token)
            words.append(previous)
        return words

    def next_token(self, words: array[int]) -> int:
        """The token that follows a history.

        Args:
            words: One word a position, from the first to the last known token.
        """
        digest = hashlib.blake2b(
            words.tobytes(), digest_size=16, key=self.seed.to_bytes(8, "little", signed=True)
        ).digest()
        return self._choose(digest)

    def _choose(self, digest: bytes) -> int:
        number = int.from_bytes(digest[:8], "little")
        if not self.eos_one_in:
            return number % self.vocab_size
        if int.from_bytes(digest[8:], "little") % self.eos_one_in == 0:
            return self.eos_token_id
        token = number % (self.vocab_size - 1)
        return token + 1 if token >= self.eos_token_id else token


def reference_output(
    request: Request, model: ScriptedModel, *, max_model_len: int | None = None
) -> list[int]:
    """Return the right answer of a request: computed alone, with unlimited memory and no cache.

    Args:
        request: Only its prompt, its caps and its stop tokens are read.
        model: The model to ask.
        max_model_len: Longest sequence, prompt and outputs (tokens); None: no bound.
    """
    params = request.sampling_params
    words = model.words(request.prompt_token_ids)
    output: list[int] = []
    while params.max_tokens is None or len(output) < params.max_tokens:
        if max_model_len is not None and len(words) >= max_model_len:
            break
        token = model.next_token(words)
        output.append(token)
        words.append(model.word(words[-1], token))
        if token in request.stop_ids and len(output) >= params.min_tokens:
            break
    return output
