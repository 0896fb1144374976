"""Measured operators of one model on one device."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright_lab.estimator.curves import Curve, Surface
from batchwright_lab.text_lines import text_lines
from batchwright_plugins.text_file import read_text
from batchwright_plugins.toml_text import parse_toml

if TYPE_CHECKING:
    from batchwright.context import Context

__all__ = ["Operators", "read_operators"]

_MICRO: Final = 1e-6
_ONCE: Final = ("embedding", "final_layernorm")
_TWICE: Final = ("layernorm",)
_BYTES_PER_VALUE: Final = 2
_MOST_LAYERS: Final = 10_000
_MOST_HIDDEN: Final = 10_000_000
_MOST: Final = 1e12
"""Of a number in a table: beyond it no sum of them is exact."""


@frozen
class Operators:
    """Times of everything that a step computes (seconds).

    Args:
        num_layers: Layers of the model.
        dense: All dense operators of all layers, all-reduces included, by tokens.
        sequences: Operators that are computed once a request, by requests.
        decode_attention: One layer, by decodes and their mean context.
        prefill_attention: One layer, by tokens of a prefill and its context.
        mixed_attention: One layer, by those four.
        least_attention: One layer, of a prefill of hardly a token.
    """

    num_layers: int
    dense: Callable[[float], float]
    sequences: Callable[[float], float]
    decode_attention: Callable[[float, float], float]
    prefill_attention: Callable[[float, float], float]
    mixed_attention: Callable[[float, float, float, float], float]
    least_attention: float


def read_operators(folder: Path, options: Any, ctx: Context) -> Operators:
    """Read a profile.

    Args:
        folder: With the tables.
        options: Of the estimator.
        ctx: The estimator's.

    Raises:
        ConfigError: A file cannot be read, or a row of it is broken.
    """
    path = f"{ctx.path}.profile"
    facts = _facts(folder, path) | _of_model(options.model, ctx)
    num_layers = options.num_layers or facts.get("num_layers")
    if type(num_layers) is not int or not 1 <= num_layers <= _MOST_LAYERS:
        problem = f"{folder.name} does not say how many layers there are; set num_layers or model"
        source = str(folder / "profile.toml")
        raise ConfigError(problem, path=f"{ctx.path}.num_layers", source=source)
    degree = options.tensor_parallel
    own = folder / f"tp{degree}"
    measured = own if own.is_dir() else folder
    share = 1 if measured is own else degree
    return Operators(
        num_layers,
        _dense(measured, path, num_layers, facts, share, _all_reduce(options, facts, ctx)),
        _summed(_by_name(measured / "per_sequence.csv", "sequences", path), {}, 1),
        **_attention(measured / "attention.csv", path, share),
    )


def _dense(
    folder: Path,
    path: str,
    num_layers: int,
    facts: Mapping[str, Any],
    share: int,
    all_reduce: Callable[[float], float] | None,
) -> Callable[[float], float]:
    once, twice = (tuple(facts.get(k, d)) for k, d in (("once", _ONCE), ("twice", _TWICE)))
    curves = _by_name(folder / "dense.csv", "tokens", path)
    counts = {
        name: 1.0 if name in once else num_layers * (2.0 if name in twice else 1.0)
        for name in curves
    }
    # Norms and embeddings are not split between devices.
    split = {name: c if name in (*once, *twice) else c / share for name, c in counts.items()}
    compute = _summed(curves, split, 0)
    if all_reduce is None:
        return compute
    return lambda num_tokens: compute(num_tokens) + 2 * num_layers * all_reduce(num_tokens)


def _all_reduce(
    options: Any, facts: Mapping[str, Any], ctx: Context
) -> Callable[[float], float] | None:
    """Time of a ring all-reduce of a step's activations, by tokens."""
    degree = options.tensor_parallel
    if degree == 1:
        return None
    hidden = facts.get("hidden_size")
    if type(hidden) is not int or not 1 <= hidden <= _MOST_HIDDEN:
        problem = "tensor parallelism needs the hidden size; set model, or it in profile.toml"
        raise ConfigError(problem, path=f"{ctx.path}.tensor_parallel")
    steps = 2 * (degree - 1)
    per_token = steps / degree * hidden * _BYTES_PER_VALUE / options.link_bandwidth
    return lambda num_tokens: steps * options.link_latency + per_token * num_tokens


def _summed(
    curves: Mapping[str, Curve], counts: Mapping[str, float], default: float
) -> Callable[[float], float]:
    """The sum of curves, as one curve (the points of all of them)."""
    arguments = sorted({a for curve in curves.values() for a in curve.arguments})
    totals = [
        (a, sum(counts.get(name, default) * curve(a) for name, curve in curves.items()))
        for a in arguments
    ]
    return Curve(totals)


def _by_name(file: Path, column: str, path: str) -> dict[str, Curve]:
    points: dict[str, list[tuple[float, float]]] = {}
    for name, argument, micros in _rows(file, ("layer", column, "time_us"), path):
        points.setdefault(str(name), []).append((float(argument), float(micros) * _MICRO))
    if not points:
        raise ConfigError("holds no row", source=f"{file}:1")
    return {name: Curve(found) for name, found in points.items()}


def _attention(file: Path, path: str, share: int) -> dict[str, Any]:
    columns = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    decodes, prefills, mixed = [], [], []
    for row in _rows(file, columns, path):
        chunk, context, count, contexts, micros = map(float, row)
        seconds = micros * _MICRO / share
        if not chunk:
            decodes.append(((count, contexts), seconds))
        elif not count:
            prefills.append(((chunk, context), seconds))
        else:
            mixed.append(((chunk, context, count, contexts), seconds))
    if not (decodes and prefills and mixed):
        raise ConfigError("lacks pure prefills, pure decodes or mixed batches", source=f"{file}:1")
    prefill = Surface(prefills, 2)
    return {
        "decode_attention": Surface(decodes, 2),
        "prefill_attention": prefill,
        "mixed_attention": Surface(mixed, 4),
        "least_attention": prefill(1.0, 0.0),
    }


def _rows(file: Path, columns: tuple[str, ...], path: str) -> Iterator[list[str]]:
    """Rows of a table, cut to columns; all but ``layer`` are numbers.

    Raises:
        ConfigError: It cannot be read, or a row is broken.
    """
    reader = csv.reader(text_lines(file, path))
    names = _next(reader, file) or []
    if any(names.count(column) != 1 for column in columns):
        raise ConfigError(f"expected columns {', '.join(columns)}, each once", source=f"{file}:1")
    places = [names.index(column) for column in columns]
    while (record := _next(reader, file)) is not None:
        if not record:
            continue
        row = [record[place] if place < len(record) else "" for place in places]
        if not all(name == "layer" or _is_number(v) for name, v in zip(columns, row, strict=True)):
            raise ConfigError(
                f"expected numbers >= 0 and <= {_MOST:g}, got {str(row)[:80]}",
                source=f"{file}:{reader.line_num}",
            )
        yield row


def _next(reader: Any, file: Path) -> list[str] | None:
    """The next row; None if there is none."""
    try:
        row: list[str] | None = next(reader, None)
    except csv.Error as error:
        source = f"{file}:{reader.line_num}"
        raise ConfigError(f"is no CSV: {error}", source=source) from error
    return row


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) <= _MOST
    except ValueError:
        return False


def _facts(folder: Path, path: str) -> dict[str, Any]:
    """Return the content of ``profile.toml``; empty if there is none."""
    file = folder / "profile.toml"
    if not file.exists():
        return {}
    facts = parse_toml(read_text(file, path), str(file))
    for key in ("once", "twice"):
        names = facts.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{key}: expected a list of operators", source=str(file))
    return facts


def _of_model(model: str | None, ctx: Context) -> dict[str, Any]:
    """Layers and hidden size of a model."""
    if model is None:
        return {}
    file = ctx.folder / Path(model).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        config = json.loads(read_text(file))
        return {
            "num_layers": int(config["num_hidden_layers"]),
            "hidden_size": int(config["hidden_size"]),
        }
    except (
        ConfigError,
        ArithmeticError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        problem = f"is no model's config: {error!r}: {file}"
        raise ConfigError(problem, path=f"{ctx.path}.model") from error
