"""Small charts as SVG elements whose colours are those of the page: lines over axes, and strips of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

# About as wide as a column of the page, so that text is never scaled much.
WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 26, 38


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
    frame = _Frame.around(x, values, log=log)
    parts = frame.axes(x_label, y_label)
    if shade_from is not None:
        start = frame.across(max(shade_from, frame.left))
        parts.append(
            f'<rect class="few" x="{start:.1f}" y="{TOP}" width="{WIDTH - RIGHT - start:.1f}" '
            f'height="{HEIGHT - BOTTOM - TOP}"/>'
        )
    # More points than pixels would only make the page larger.
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), WIDTH)).astype(int))
    names_end = WIDTH - RIGHT
    for line in reversed(lines):
        kind = "line second" if line.second else "line"
        points = " ".join(
            f"{frame.across(float(x[j])):.1f},{frame.up(float(line.y[j])):.1f}" for j in chosen
        )
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        # In the row of the axis' name, above the lines, the last one at the end.
        parts.append(
            f'<text class="{kind}" x="{names_end}" y="9" text-anchor="end">{escape(line.name)}</text>'
        )
        names_end -= 7 * len(line.name) + 12
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def trace_chart(signals: np.ndarray, *, label: str) -> str:
    """Return signals over time, one below the other, each over its own range.

    Parameters
    ----------
    signals : ndarray of shape (n_times, n_signals)
        The signals.
    label : str
        What they are, for screen readers.

    Returns
    -------
    str
        An ``<svg>`` element.
    """
    n_times, n_signals = signals.shape
    height = 60
    parts = []
    for i, column in enumerate(np.asarray(signals, np.float64).T):
        low, high = float(column.min()), float(column.max())
        y = (i + 0.95) * height - 0.9 * height * (column - low) / ((high - low) or 1.0)
        x = np.linspace(0, WIDTH, n_times)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        parts.append(f'<polyline class="line thin" points="{points}"/>')
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height * n_signals}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
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


class _Frame(NamedTuple):
    """The ends of both axes, the ticks of y, and the places of values in the picture."""

    left: float
    right: float
    low: float
    high: float
    ticks: list[float]
    log: bool

    @classmethod
    def around(cls, x: np.ndarray, values: np.ndarray, *, log: bool) -> _Frame:
        """Return the frame of lines with these values; a logarithmic one has whole powers of ten."""
        left, right = float(x[0]), float(x[-1])
        right = right if right > left else left + 1  # of one value
        if not log:
            low, high = float(values.min()), float(values.max())
            # A line of one height has it in the middle.
            if high - low < 1e-12 * max(abs(high), 1e-300):
                low, high = low - 0.5, high + 0.5
            return cls(left, right, low, high, _ticks(low, high), log)
        # What is a million times smaller than the largest is rounding error, and not worth most of the
        # picture.
        positive = values[values > 1e-6 * values.max()]
        if not len(positive):
            return cls(left, right, 0.1, 1.0, [0.1, 1.0], log)
        last = math.ceil(math.log10(positive.max()) - 1e-9)
        first = min(math.floor(math.log10(positive.min()) + 1e-9), last - 1)
        step = 1 if last - first <= 5 else 2  # more numbers would touch each other
        ticks = [10.0**i for i in range(first, last + 1, step)]
        return cls(left, right, 10.0**first, 10.0**last, ticks, log)

    def across(self, value: float) -> float:
        return LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def axes(self, x_label: str, y_label: str) -> list[str]:
        """Return the lines of ticks, their numbers and the names of the axes."""
        parts = []
        for tick in self.ticks:
            y = self.up(tick)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
            )
        for tick in _ticks(self.left, self.right):
            parts.append(
                f'<text x="{self.across(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
                f"{_number(tick)}</text>"
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
        )
        parts.append(f'<text x="0" y="9">{escape(y_label)}</text>')
        return parts


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers in a range."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(m for m in (5, 2, 1) if (high - low) / (m * step) >= 3 or m == 1)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    """Return a number for an axis: 0.001, 20, 50k, 3.2M."""
    for unit, name in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            return f"{value / (1e6 if name == 'M' else 1e3):.4g}{name}"
    return f"{value:.4g}".replace("e-0", "e-")
