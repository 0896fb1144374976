"""Plots of simulated against real times, one dot a request, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

SIZE, GAP, LEFT, TOP = 260, 90, 60, 40
LABELS = {"ttft": "TTFT (s)", "tpot": "TPOT (ms)", "e2e": "E2E (s)"}
FACTORS = {"ttft": 1.0, "tpot": 1000.0, "e2e": 1.0}


def scatter(title: str, simulated: Sequence[Any], real: Sequence[Any]) -> str:
    """Three panels side by side; the diagonal is where both are equal."""
    width = LEFT + len(LABELS) * (SIZE + GAP)
    height = TOP + SIZE + 60
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{title}: simulated against real</text>',
    ]
    for index, name in enumerate(LABELS):
        pairs = [
            (getattr(r, name) * FACTORS[name], getattr(s, name) * FACTORS[name])
            for s, r in zip(simulated, real, strict=True)
        ]
        body += _panel(LEFT + index * (SIZE + GAP), LABELS[name], pairs)
    return "\n".join([*body, "</svg>"]) + "\n"


def _panel(x: int, label: str, pairs: Sequence[tuple[float, float]]) -> Iterator[str]:
    step = _step(max(max(pair) for pair in pairs))
    most = step * math.ceil(max(max(pair) for pair in pairs) / step)
    yield f'<rect x="{x}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>'
    yield (
        f'<line x1="{x}" y1="{TOP + SIZE}" x2="{x + SIZE}" y2="{TOP}" stroke="#c44" '
        'stroke-dasharray="4 3"/>'
    )
    for number in range(round(most / step) + 1):
        at = number * step / most * SIZE
        text = f"{number * step:g}"
        yield (f'<text x="{x + at:.1f}" y="{TOP + SIZE + 16}" text-anchor="middle">{text}</text>')
        yield f'<text x="{x - 6}" y="{TOP + SIZE - at + 4:.1f}" text-anchor="end">{text}</text>'
    yield (
        f'<text x="{x + SIZE / 2:g}" y="{TOP + SIZE + 36}" text-anchor="middle">real {label}</text>'
    )
    dots = "".join(
        f"M{x + real / most * SIZE:.1f} {TOP + SIZE - ours / most * SIZE:.1f}h0"
        for real, ours in pairs
    )
    yield (
        f'<path d="{dots}" stroke="#26c" stroke-width="4" stroke-linecap="round" '
        'stroke-opacity="0.5"/>'
    )


def _step(most: float) -> float:
    """A round distance of about a fifth."""
    power = 10.0 ** math.floor(math.log10(most / 5))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= most / 5)
