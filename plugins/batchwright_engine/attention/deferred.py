"""A backend whose kernels are imported only when it is used."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from batchwright.protocols.attention import (
    AttentionBackend,
    AttentionBatch,
    AttentionSpec,
    LayerCall,
)

if TYPE_CHECKING:
    import torch

    from batchwright.messages import BlockCopy

    from .support import Support

__all__ = ["DeferredAttention", "Kernels"]


class Kernels(Protocol):
    """The part that computes, once there is a cache; see ``AttentionBackend``."""

    def begin_step(self, batch: AttentionBatch) -> None: ...

    def forward(self, call: LayerCall) -> torch.Tensor: ...

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None: ...


class DeferredAttention(AttentionBackend):
    """Declare its support, and leave the rest to kernels imported by ``allocate``.

    Attributes:
        support: Its capabilities.
    """

    support: ClassVar[Support]

    _kernels: Kernels

    @abstractmethod
    def _make(self, spec: AttentionSpec, num_blocks: int) -> Kernels:
        """Import the kernels and allocate their cache."""

    def _missing(self, spec: AttentionSpec) -> str | None:
        """Return a further obstacle here, if all declared requirements are met."""
        return None

    def unsupported(self, spec: AttentionSpec) -> str | None:
        return self.support.problem(spec) or self._missing(spec)

    def allocate(self, spec: AttentionSpec, num_blocks: int) -> None:
        self._kernels = self._make(spec, num_blocks)

    def begin_step(self, batch: AttentionBatch) -> None:
        self._kernels.begin_step(batch)

    def forward(self, call: LayerCall) -> torch.Tensor:
        return self._kernels.forward(call)

    def copy_blocks(self, copies: Sequence[BlockCopy]) -> None:
        self._kernels.copy_blocks(copies)
