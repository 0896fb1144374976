"""Prompts as callers give them: texts, token ids, conversations, and their stop strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Final

import attrs

from batchwright.exceptions import OUTSIDE, BatchwrightError, RequestRefusedError
from batchwright.protocols import ModelInfo, Tokenizer
from batchwright.request import Request
from batchwright.sampling_params import SamplingParams
from batchwright_engine.chat import MessageError, normalize_messages

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""Text, token ids, or a conversation (``{"role": ..., "content": ...}``)."""

_LEAST_SPECIAL: Final = 3
"""Characters of a special token that is looked for in stop strings: a shorter one is text, too."""


def several(prompts: Prompt | Iterable[Prompt]) -> list[Prompt]:
    """List the prompts of a call of ``generate``: a single one is one of them.

    Raises:
        TypeError: It is nothing of the kind.
    """
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes | bytearray | Mapping) or not isinstance(prompts, Iterable):
        raise TypeError(
            "generate() takes prompts (texts, lists of token ids, or conversations), "
            f"not {type(prompts).__name__}"
        )
    found: list[Any] = list(prompts)
    if found and isinstance(found[0], Integral | Mapping):
        return [found]  # the token ids, or the messages, of a single one
    return found


def paired(
    prompts: Prompt | Iterable[Prompt],
    sampling_params: SamplingParams | Iterable[SamplingParams] | None,
) -> list[tuple[Prompt, SamplingParams | None]]:
    """Pair the prompts of a call of ``generate`` with their sampling parameters.

    Args:
        prompts: Several prompts, or a single one.
        sampling_params: One for all, or one for each.

    Raises:
        TypeError: The prompts are none.
        ValueError: There are more or fewer sampling parameters than prompts.
    """
    asked = several(prompts)
    if sampling_params is None or isinstance(sampling_params, SamplingParams):
        return [(prompt, sampling_params) for prompt in asked]
    params = list(sampling_params)
    if len(params) != len(asked):
        raise ValueError(
            f"generate() got {len(asked)} prompts and {len(params)} sampling parameters; "
            "give one for all, or one for each"
        )
    return list(zip(asked, params, strict=True))


def make_request(
    model: ModelInfo,
    request_id: str,
    prompt: Prompt,
    sampling_params: SamplingParams | None,
    fields: Mapping[str, Any],
) -> Request:
    """Make the request of a prompt.

    Args:
        model: The model, with its tokenizer.
        request_id: Its id.
        prompt: Text, token ids or a conversation.
        sampling_params: Its sampling parameters; None: the defaults.
        fields: Other fields of the request.

    Raises:
        RequestRefusedError: The prompt cannot be encoded, or its stop strings cannot be used.
    """
    params = sampling_params or SamplingParams()
    if params.stop:
        params = with_stop_ids(model, request_id, params)
    try:
        return Request(
            request_id=request_id,
            prompt_token_ids=encode(model.tokenizer, request_id, prompt),
            sampling_params=params,
            eos_token_id=model.eos_token_ids,
            **fields,
        )
    except ValueError as error:  # of its token ids
        raise RequestRefusedError(request_id, str(error)) from error


def encode(tokenizer: Tokenizer | None, request_id: str, prompt: Prompt) -> Sequence[int]:
    """Return the token ids of a prompt.

    Raises:
        RequestRefusedError: It cannot be tokenized, or is nothing of the kind.
    """
    if isinstance(prompt, str) or _is_conversation(request_id, prompt):
        if tokenizer is None:
            raise RequestRefusedError(request_id, "the model has no tokenizer; give token ids")
        try:
            if isinstance(prompt, str):
                return tokenizer.encode(prompt)
            return tokenizer.encode_chat(normalize_messages(prompt))
        except (BatchwrightError, *OUTSIDE):
            raise
        except MessageError as error:
            raise RequestRefusedError(request_id, str(error)) from error
        except BaseException as error:  # e.g. a lone surrogate; one request's fault alone
            reason = f"its prompt cannot be tokenized: {type(error).__name__}: {error}"
            raise RequestRefusedError(request_id, reason) from error
    return prompt  # type: ignore[return-value]


def with_stop_ids(model: ModelInfo, request_id: str, params: SamplingParams) -> SamplingParams:
    """Let stop strings that are special tokens stop by their ids: no text shows them.

    Raises:
        RequestRefusedError: A stop string could never be found.
    """
    if model.tokenizer is None:
        raise RequestRefusedError(request_id, "stop strings need a model with a tokenizer")
    special = model.special_tokens
    stops = [stop for stop in params.stop if isinstance(stop, str)]
    for stop in stops:
        within = [t for t in special if len(t) >= _LEAST_SPECIAL and t in stop]
        if within and stop not in special:
            raise RequestRefusedError(
                request_id,
                f"stop {stop!r} can never be found, since text does not show the special "
                f"token {within[0]!r}; give {within[0]!r} alone, or "
                f"stop_token_ids = [{special[within[0]]}]",
            )
    ids = [special[stop] for stop in stops if stop in special]
    if not ids:
        return params
    return attrs.evolve(params, stop_token_ids=(*params.stop_token_ids, *ids))


def _is_conversation(request_id: str, prompt: Sequence[Any]) -> bool:
    """Return whether a prompt is made of messages, and not of token ids.

    Raises:
        RequestRefusedError: It is no sequence at all.
    """
    try:
        return len(prompt) > 0 and isinstance(prompt[0], Mapping)
    except (TypeError, LookupError):
        expected = "text, a sequence of token ids, or a list of messages"
        problem = f"its prompt must be {expected}, not a {type(prompt).__name__}"
        raise RequestRefusedError(request_id, problem) from None
