"""Choose among attention backends, and keep the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from batchwright.exceptions import ModelError

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionBackend, AttentionSpec

__all__ = ["AttentionChoice", "choose_attention"]


@frozen(eq=False)
class AttentionChoice:
    """The backend that computes, and the reasons against the others.

    Args:
        backend: The chosen one.
        others: Each other one's name, and the reason against it.
    """

    backend: AttentionBackend
    others: tuple[tuple[str, str], ...]


def choose_attention(
    backends: Sequence[AttentionBackend], spec: AttentionSpec, model: str
) -> AttentionChoice:
    """Choose the first backend that can serve a model.

    Args:
        backends: In order of preference.
        spec: Requirements of the model.
        model: Name of the model in errors.

    Raises:
        ModelError: None can; says why of each.
    """
    reasons = [(backend, backend.unsupported(spec)) for backend in backends]
    able = [backend for backend, reason in reasons if reason is None]
    if not able:
        raise ModelError(_refusal([(b.name, str(reason)) for b, reason in reasons], model))
    late = f"{able[0].name} is preferred"
    return AttentionChoice(
        able[0], tuple((b.name, reason or late) for b, reason in reasons if b is not able[0])
    )


def _refusal(reasons: list[tuple[str, str]], model: str) -> str:
    each = "; ".join(f"{name}: {reason}" for name, reason in reasons)
    if len(reasons) == 1:
        return (
            f"model {model} cannot be served with the attention backend {each}; "
            'with attention.backend = "auto" one is chosen that can'
        )
    return f"no attention backend can serve model {model}: {each or 'none was given'}"
