"""Small charts as SVG elements whose colours are those of the page: lines over axes, and strips of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

# As wide as the column of a phone, so that text is never scaled down much.
WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 14, 38


class Line(NamedTuple):
    """One line of a chart."""

    y: np.ndarray
    name: str = ""
    second: bool = False


def line_chart(
    lines: Sequence[Line],
    *,
    label: str,
    x_label: str,
    y_label: str,
    x: np.ndarray | None = None,
    log: bool = False,
    shade_from: float | None = None,
) -> str:
    """Return a chart of lines over a common x.

    Parameters
    ----------
    lines : sequence of Line
        Values, each of shape (n,). On a logarithmic axis values at or below zero are drawn at its foot.
    label : str
        What the chart shows, for screen readers.
    x_label, y_label : str
        Names of the axes.
    x : ndarray of shape (n,), default=None
        Where the values are; 1, 2, 3, ... by default.
    log : bool, default=False
        Whether the y axis is logarithmic.
    shade_from : float, default=None
        Mark the chart from this x on.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    x = np.arange(1, len(lines[0].y) + 1) if x is None else x
    values = np.concatenate([np.asarray(line.y, np.float64) for line in lines])
    low, high, ticks = _log_axis(values) if log else _axis(values)
    x_low, x_high, _ = float(x[0]), float(x[-1]) if x[-1] > x[0] else float(x[0]) + 1, None

    def across(value: float) -> float:
        return LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        place = (math.log10(max(value, low)) - math.log10(low)) if log else value - low
        extent = (math.log10(high) - math.log10(low)) if log else high - low
        return HEIGHT - BOTTOM - place / extent * (HEIGHT - BOTTOM - TOP)

    parts = []
    for tick in ticks:
        y = up(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in _ticks(x_low, x_high):
        parts.append(
            f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
            f"{_number(tick)}</text>"
        )
    if shade_from is not None:
        start = across(max(shade_from, x_low))
        parts.append(
            f'<rect class="few" x="{start:.1f}" y="{TOP}" width="{WIDTH - RIGHT - start:.1f}" '
            f'height="{HEIGHT - BOTTOM - TOP}"/>'
        )
    for i, line in enumerate(lines):
        kind = "line second" if line.second else "line"
        # More points than pixels would only make the page larger.
        chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), WIDTH)).astype(int))
        points = " ".join(f"{across(float(x[j])):.1f},{up(float(line.y[j])):.1f}" for j in chosen)
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        if line.name:
            parts.append(
                f'<text class="{kind}" x="{WIDTH - RIGHT}" y="{TOP + 12 + 15 * i}" text-anchor="end">'
                f"{escape(line.name)}</text>"
            )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
    )
    parts.append(f'<text x="0" y="9">{escape(y_label)}</text>')
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def strip(values: np.ndarray, *, peak: float, label: str) -> str:
    """Return bars above and below a line, without axes: one row of a matrix.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Heights.
    peak : float
        The value that fills half the height; the same for all rows that are to be compared.
    label : str
        What it shows, for screen readers.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    peak, wide = peak or 1.0, max(1.0, 200 / len(values))
    bars = []
    for i, value in enumerate(values):
        height = 15 * min(abs(float(value)) / peak, 1.0)
        sign = "" if value >= 0 else " negative"
        top = 16 - height if value >= 0 else 16.0
        bars.append(
            f'<rect class="bar{sign}" x="{i * wide:.1f}" y="{top:.1f}" width="{0.85 * wide:.1f}" '
            f'height="{height:.1f}"/>'
        )
    return (
        f'<svg class="chart strip" viewBox="0 0 {wide * len(values):.0f} 32" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}">{"".join(bars)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers in a range."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(m for m in (5, 2, 1) if (high - low) / (m * step) >= 3 or m == 1)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _axis(values: np.ndarray) -> tuple[float, float, list[float]]:
    """Return the ends and ticks of a linear axis."""
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - 0.5, high + 0.5
    return low, high, _ticks(low, high)


def _log_axis(values: np.ndarray) -> tuple[float, float, list[float]]:
    """Return the ends and ticks of a logarithmic axis, whole powers of ten; eight of them at most."""
    positive = values[values > 0]
    if not len(positive):
        return 0.1, 1.0, [0.1, 1.0]
    high = math.ceil(math.log10(positive.max()) - 1e-9)
    low = max(math.floor(math.log10(positive.min()) + 1e-9), high - 8)
    low = min(low, high - 1)
    step = 1 if high - low <= 5 else 2
    return 10.0**low, 10.0**high, [10.0**i for i in range(low, high + 1, step)]


def _number(value: float) -> str:
    """Return a number for an axis: 0.001, 20, 5k."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.4g}".replace("e-0", "e-")
