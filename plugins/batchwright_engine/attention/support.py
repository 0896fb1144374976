"""Declared capabilities of an attention backend, and the reasons of a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from batchwright.protocols.attention import AttentionSpec

__all__ = ["Library", "Support"]

Version = tuple[int, ...]


@frozen
class Library:
    """A distribution that a backend needs.

    Args:
        name: Of the distribution.
        least: First version that will do.
        below: First version that will not do any more; None: any later one does.
        install: Command that installs it.
    """

    name: str
    least: Version
    below: Version | None
    install: str

    def problem(self) -> str | None:
        """Return the reason why the installed version will not do; None if it will."""
        from importlib import metadata  # brings along what reads e-mail

        try:
            found = metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return f"{self.name} is not installed; run: {self.install}"
        version = _version(found)
        if version >= self.least and (self.below is None or version < self.below):
            return None
        return (
            f"it needs {self.name} {self._range()}, and {found} is installed; run: {self.install}"
        )

    def _range(self) -> str:
        least = f">={_text(self.least)}"
        return least if self.below is None else f"{least},<{_text(self.below)}"


@frozen(kw_only=True)
class Support:
    """Capabilities of a backend. A default means: anything.

    Args:
        devices: Devices on which it computes.
        capability: Least CUDA compute capability.
        dtypes: Types in which it computes.
        head_sizes: Elements a head.
        most_head_size: Most elements a head.
        head_size_multiple: Number that the elements a head must be a multiple of.
        most_group_size: Most query heads that share a key head.
        block_multiple: Number that the tokens a block must be a multiple of.
        window: True if a layer may have a sliding window.
        softcap: True if scores may be soft-capped.
        sinks: True if layers may have attention sinks.
        libraries: Libraries that must be installed.
    """

    devices: tuple[str, ...] = ("cpu", "cuda")
    capability: tuple[int, int] | None = None
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
    head_sizes: tuple[int, ...] = ()
    most_head_size: int | None = None
    head_size_multiple: int = 1
    most_group_size: int | None = None
    block_multiple: int = 1
    window: bool = True
    softcap: bool = True
    sinks: bool = True
    libraries: tuple[Library, ...] = ()

    def problem(self, spec: AttentionSpec) -> str | None:
        """Return in one sentence why a model cannot be served here; None if it can.

        A block size of 0 is not known yet, and passes.
        """
        return next(self._problems(spec), None)

    def _problems(self, spec: AttentionSpec) -> Iterator[str]:
        if spec.device not in self.devices:
            yield f"it computes on {' or '.join(self.devices)}, not on {spec.device}"
        if spec.device == "cuda" and self.capability is not None:
            yield from _weaker(self.capability)
        if spec.dtype not in self.dtypes:
            yield f"it computes in {_list(self.dtypes)}, not in {spec.dtype}"
        yield from self._heads(spec)
        if spec.block_size % self.block_multiple:
            yield (
                f"kv.block_size must be a multiple of {self.block_multiple} for it, "
                f"not {spec.block_size}"
            )
        yield from self._features(spec)
        for library in self.libraries:
            problem = library.problem()
            if problem is not None:
                yield problem

    def _heads(self, spec: AttentionSpec) -> Iterator[str]:
        size, (group, rest) = spec.head_size, divmod(spec.num_query_heads, spec.num_kv_heads)
        if rest:
            yield (
                f"{spec.num_query_heads} query heads cannot share "
                f"{spec.num_kv_heads} key heads evenly"
            )
        if self.most_group_size is not None and group > self.most_group_size:
            yield f"at most {self.most_group_size} query heads may share a key head, not {group}"
        if self.head_sizes and size not in self.head_sizes:
            yield f"it computes heads of {_list(self.head_sizes)} elements, not of {size}"
        if self.most_head_size is not None and size > self.most_head_size:
            yield f"it computes heads of at most {self.most_head_size} elements, not of {size}"
        if size % self.head_size_multiple:
            yield f"elements a head must be a multiple of {self.head_size_multiple}, not {size}"

    def _features(self, spec: AttentionSpec) -> Iterator[str]:
        if not self.window and any(window is not None for window in spec.sliding_windows):
            yield "it has no sliding window, and layers of the model have one"
        if spec.softcap and not self.softcap:
            yield "it cannot soft-cap scores, as the model does"
        if spec.sinks and not self.sinks:
            yield "it has no attention sinks, and the model has some"


def _weaker(least: tuple[int, int]) -> Iterator[str]:
    """Say so if the GPU is less capable than this."""
    import torch

    found = torch.cuda.get_device_capability()
    if found < least:
        yield (
            f"it needs CUDA compute capability {_text(least)}, "
            f"and {torch.cuda.get_device_name()} has {_text(found)}"
        )


def _list(values: tuple[object, ...]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}" if most else last


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _version(text: str) -> Version:
    """The numbers that a version begins with: ``2.13.0+cpu`` is (2, 13, 0)."""
    numbers = []
    for part in text.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
