"""Sections of the check on a GPU: what each runs, what it needs, how long it may take."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEAST_PYTHON = (3, 11)  # of Batchwright
CORE = ("attrs", "importlib_metadata", "pluggy", "xxhash")
ENGINE = ("numpy", "gguf", "safetensors", "tokenizers", "transformers")


@dataclass(frozen=True)
class Section:
    """Part of the check, which runs in a process of its own.

    Args:
        name: Short; ``--only`` takes it.
        program: Arguments of Python.
        seconds: Time that is kept for it.
        needs: Packages besides torch.
        needs_any: Packages of which one will do.
        needs_on_cpu: Packages that it needs besides on a CPU.
        capability: Least CUDA compute capability; None: any.
        not_on_cpu: Why it is skipped on a CPU; None if it is not.
        uses_batchwright: It imports Batchwright, and so needs its Python.
        has_numbers: It takes ``--device`` and ``--json FILE``.
    """

    name: str
    program: tuple[str, ...]
    seconds: int
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ()
    needs_on_cpu: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None
    not_on_cpu: str | None = None
    uses_batchwright: bool = False
    has_numbers: bool = True

    @property
    def packages(self) -> set[str]:
        """Packages that it may use."""
        return {"torch", *self.needs, *self.needs_any, *self.needs_on_cpu}


def _script(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(HERE / name), *arguments)


SECTIONS = (
    Section(
        "triton-kernels",
        _script("kernel_check.py", "--kernels", "triton"),
        seconds=55,
        needs=("triton",),
        capability=(8, 0),
        needs_on_cpu=("numpy",),  # by Triton's interpreter
    ),
    Section(
        "torch-kernels",
        _script("kernel_check.py", "--kernels", "torch"),
        seconds=15,
        needs=("numpy",),
    ),
    Section(
        "paged-decode",
        _script("paged_decode.py"),
        seconds=25,
        needs_any=("triton", "numpy"),
        needs_on_cpu=("numpy",),
    ),
    Section(
        "engine-greedy",
        _script("engine_check.py"),
        seconds=45,
        needs=(*CORE, *ENGINE),
        uses_batchwright=True,
    ),
    Section(
        "layer-table",
        _script("benchmark.py"),
        seconds=25,
        needs=(*CORE, "numpy"),
        uses_batchwright=True,
    ),
    Section(
        "suite",
        ("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(HERE / "suite.py")),
        seconds=60,
        needs=(*CORE, "numpy", "pytest", "hypothesis"),
        not_on_cpu="test_kernels.py runs it there, under Triton's interpreter",
        uses_batchwright=True,
        has_numbers=False,
    ),
)
"""Sections in the order in which they run: first what needs least, last what takes longest."""


def reason_to_skip(
    section: Section,
    device: str,
    installed: Collection[str],
    python: tuple[int, int] = LEAST_PYTHON,
    capability: tuple[int, int] | None = None,
) -> str | None:
    """Return the reason why a section cannot run here; None if it can.

    Args:
        section: Part of the check.
        device: ``cuda`` or ``cpu``.
        installed: Packages that there are.
        python: Version of Python.
        capability: CUDA compute capability; None: not known.
    """
    on_cpu = device == "cpu"
    needs = ("torch", *section.needs, *(section.needs_on_cpu if on_cpu else ()))
    missing = [name for name in needs if name not in installed]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if section.needs_any and not any(name in installed for name in section.needs_any):
        return f"none of these is installed: {', '.join(section.needs_any)}"
    if section.uses_batchwright and python < LEAST_PYTHON:
        return "Batchwright needs Python {}.{}, this is {}.{}".format(*LEAST_PYTHON, *python)
    if section.capability and capability and capability < section.capability:
        least, found = (".".join(map(str, pair)) for pair in (section.capability, capability))
        return f"it needs CUDA compute capability {least}, and this GPU has {found}"
    return section.not_on_cpu if on_cpu else None


def seconds_for(section: Section, behind: Iterable[Section], left: float) -> float:
    """Time that a section may take: what is left, without what is kept for those behind it."""
    kept = sum(other.seconds for other in behind)
    return max(min(float(section.seconds), left), left - kept, 1.0)
