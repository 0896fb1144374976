"""The executor ``torch``: a transformers decoder over a paged KV cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from attrs import evolve, field, frozen, validators

from batchwright.exceptions import ExecutorError, ModelError
from batchwright.protocols import Executor, ModelInfo, ModelSettings
from batchwright_plugins.extras import install_hint

from .attention_choice import AttentionChoice, choose_attention
from .cpu_threads import apart, physical_cores, quiet_openmp

if TYPE_CHECKING:
    from batchwright.messages import ModelOutput, NewRequestData, SchedulerOutput
    from batchwright.protocols.attention import AttentionBackend, AttentionSpec

    from .loaded_model import LoadedModel
    from .model_runner import ModelRunner
    from .tokenizer import ModelTokenizer

__all__ = ["TorchExecutor", "TorchExecutorOptions"]

_PACKAGES = ("torch", "transformers", "safetensors", "gguf")


@frozen
class TorchExecutorOptions:
    """Options of the executor ``torch`` (table ``[executor.torch]``)."""

    device: str = field(
        default="auto",
        validator=validators.in_(("auto", "cpu", "cuda")),
        metadata={
            "help": "Where to compute: cpu, cuda, or auto (cuda where there is one).",
            "unit": "device",
        },
    )
    threads: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(1)),
        metadata={
            "help": "Threads to compute with on a CPU; by default one a physical core.",
            "unit": "threads",
        },
    )


class TorchExecutor(Executor):
    """A decoder of transformers, batched continuously, on a CPU or on CUDA.

    It serves local Hugging Face folders and the embedded model ``smollm2-135m``. All tokens of
    a step form one flat batch. The attention of every layer goes through an attention backend,
    which is checked when the model is loaded. Random numbers are functions of (seed, output
    position), also after a preemption. So a seed repeats its tokens in float32. In bfloat16 and
    float16 the rounding of logits depends on the other requests of the batch, and a token may
    differ if two are nearly equally likely; that holds for greedy sampling, too. No test has
    run on CUDA yet.

    It reports an error for one request alone if the request cannot be taken up, its tokens are
    foreign to the model, its plan cannot be computed, or its logits are not finite.
    """

    name: ClassVar[str] = "torch"
    Options: ClassVar[type] = TorchExecutorOptions
    runs_in_background: ClassVar[bool] = True

    _settings: ModelSettings
    _loaded: LoadedModel | None = None
    _attention: AttentionBackend
    _runner: ModelRunner | None = None

    def load(self, settings: ModelSettings) -> ModelInfo:
        _require(*_PACKAGES)
        folder = _folder(settings.path)
        quiet_openmp()
        started = time.monotonic()
        import torch

        imported = time.monotonic()
        from .tokenizer import load_tokenizer

        threads = self.options.threads or physical_cores()
        torch.set_num_threads(threads)
        self._settings = settings
        loaded, choice = apart(lambda: self._prepare(folder))
        tokenizer = load_tokenizer(folder)
        self._loaded = _with_ends_of(loaded, tokenizer)
        self._attention = choice.backend
        return ModelInfo(
            name=settings.path,
            max_model_len=self._loaded.max_model_len,
            vocab_size=self._loaded.vocab_size,
            eos_token_ids=self._loaded.eos_token_ids,
            kv_bytes_per_token=_kv_bytes(self._loaded.spec),
            sliding_window=_window(self._loaded.spec),
            tokenizer=tokenizer,
            special_tokens=tokenizer.special_tokens if tokenizer is not None else {},
            attention=choice.backend.name,
            attention_others=choice.others,
            notes=_notes(self._loaded, threads, imported - started, imported),
            path=folder,
        )

    def _prepare(self, folder: Path) -> tuple[LoadedModel, AttentionChoice]:
        """Load the weights, and choose what attends; both compute."""
        from .model_loader import load_model, pick_device

        settings, device = self._settings, pick_device(self.options.device)
        loaded = load_model(folder, settings.path, settings.dtype, settings.max_model_len, device)
        spec = evolve(loaded.spec, block_size=settings.block_size)
        return loaded, choose_attention(settings.attention, spec, settings.path)

    def inspect(self, settings: ModelSettings) -> ModelInfo | None:
        folder = _present(settings.path)
        if folder is None or _missing(*_PACKAGES):
            return None
        from .model_loader import pick_device
        from .model_shape import shape_of

        device = pick_device(self.options.device)
        spec = shape_of(folder, settings.path, settings.dtype, device)
        if spec is None:
            return None
        spec = evolve(spec, block_size=settings.block_size)
        choice = choose_attention(settings.attention, spec, settings.path)
        return ModelInfo(
            name=settings.path,
            max_model_len=settings.max_model_len or 0,
            vocab_size=0,
            kv_bytes_per_token=_kv_bytes(spec),
            sliding_window=_window(spec),
            attention=choice.backend.name,
            attention_others=choice.others,
            path=folder,
        )

    def allocate_kv(self, num_blocks: int, block_size: int) -> None:
        from .model_runner import ModelRunner

        loaded = self._loaded
        if loaded is None:
            raise ExecutorError("the torch executor was asked for a KV cache before a model")
        self._runner = apart(
            lambda: ModelRunner(
                loaded,
                self._attention,
                self._settings.seed,
                num_blocks,
                block_size,
                lambda phase: self.phases.lap(phase),
            )
        )

    def add_request(self, request: NewRequestData) -> None:
        self._ready_runner().add_request(request)

    def remove_request(self, request_id: str) -> None:
        self._ready_runner().remove_request(request_id)

    def execute(self, plan: SchedulerOutput) -> ModelOutput:
        return self._ready_runner().execute(plan)

    def _ready_runner(self) -> ModelRunner:
        if self._runner is None:
            raise ExecutorError("the torch executor was given a plan before a KV cache")
        return self._runner

    def measure_limits(self, num_rows: int) -> Mapping[str, float]:
        from .linear import make_linear
        from .machine_limits import memory_bandwidth, plain_product, products_seconds

        if self._loaded is None:
            return {}
        dtype, device = self._loaded.spec.dtype, self._loaded.device
        work = self._loaded.products, num_rows, dtype, device
        return {
            "products_seconds": products_seconds(*work, make_linear),
            "plain_products_seconds": products_seconds(*work, plain_product),
            "memory_bytes_per_second": memory_bandwidth(device),
        }

    def restart(self) -> None:
        if self._runner is not None:
            self._runner.restart()

    def close(self) -> None:
        self._runner = None
        self._loaded = None


def _require(*packages: str) -> None:
    """Say what to install, instead of failing in the middle.

    Raises:
        ModelError: A package is missing.
    """
    missing = _missing(*packages)
    if missing:
        raise ModelError(f"the torch executor needs {', '.join(missing)}: {install_hint('engine')}")


def _missing(*packages: str) -> list[str]:
    return [package for package in packages if find_spec(package) is None]


def _present(path: str) -> Path | None:
    """Return the folder of a model that needs no preparation; None if there is none."""
    from . import embedded_model

    is_embedded = path in embedded_model.NAMES
    folder = embedded_model.cache_folder() / "models" / path if is_embedded else Path(path)
    folder = folder.expanduser()
    return folder.resolve() if (folder / "config.json").is_file() else None


def _folder(path: str) -> Path:
    """Return the folder of a model.

    Raises:
        ModelError: It is neither a folder nor embedded, or its package is missing.
    """
    from . import embedded_model

    if path in embedded_model.NAMES:
        return embedded_model.prepare(path)
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"model.path {path!r} is neither a Hugging Face folder (with a config.json) "
            f"nor an embedded model ({', '.join(embedded_model.NAMES)})"
        )
    return folder.resolve()


def _with_ends_of(loaded: LoadedModel, tokenizer: ModelTokenizer | None) -> LoadedModel:
    """Let a model end with its tokenizer's own end token, too, whatever its configs name."""
    more = tokenizer.eos_token_ids if tokenizer is not None else ()
    ends = dict.fromkeys((*loaded.eos_token_ids, *more))
    return evolve(loaded, eos_token_ids=tuple(ends))


def _kv_bytes(spec: AttentionSpec) -> int:
    width = 4 if spec.dtype == "float32" else 2
    return 2 * spec.num_layers * spec.num_kv_heads * spec.head_size * width


def _window(spec: AttentionSpec) -> int | None:
    windows = [window for window in spec.sliding_windows if window is not None]
    return max(windows) if len(windows) == spec.num_layers else None


def _notes(loaded: LoadedModel, threads: int, importing: float, imported: float) -> tuple[str, ...]:
    spec = loaded.spec
    some = "1 thread" if threads == 1 else f"{threads} threads"
    place = f"cpu, {some}" if spec.device == "cpu" else spec.device
    return (
        f"{loaded.num_parameters / 1e6:.0f}M parameters in {spec.dtype} on {place}",
        f"{spec.num_layers} layers, {spec.num_query_heads} query heads, "
        f"{spec.num_kv_heads} key heads of {spec.head_size}",
        f"loaded in {time.monotonic() - imported:.1f} s (torch itself in {importing:.1f} s)",
    )
