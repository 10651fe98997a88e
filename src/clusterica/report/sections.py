"""Sections of a page about a model, each from a part of its summary; `model_page` joins them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from clusterica.cluster import near_empty
from clusterica.report._charts import Line, line_chart, strip, trace_chart
from clusterica.report._measures import N_BINS, REACH
from clusterica.report._page import Page

__all__ = [
    "add_charts",
    "add_facts",
    "add_filters",
    "add_pairs",
    "add_signals",
    "add_validation",
    "add_vectors",
]

# The orders that filters can be sorted by, as the page names them.
ORDERS = {
    "index": "original order",
    "size": "cluster size",
    "kurtosis": "kurtosis",
    "frequency": "frequency",
    "orientation": "orientation",
}
# Classes up to which a confusion matrix can be read; of more, the ten pairs with most errors are listed.
MOST_CLASSES = 30


def add_facts(page: Page, facts: list[tuple[str, str]]) -> None:
    """Add a few large numbers, the most important first.

    Parameters
    ----------
    page : Page
        The page.
    facts : list of tuple (value, words)
        The numbers as text, and what they are.
    """
    items = [
        f"<div><dt>{escape(words)}</dt><dd>{escape(value)}</dd></div>" for value, words in facts
    ]
    page.add_html('<dl class="facts">\n' + "\n".join(items) + "\n</dl>")


def add_filters(page: Page, bank: dict[str, Any], *, name: str = "filters") -> None:
    """Add a grid of filters that can be sorted and opened.

    Parameters
    ----------
    page : Page
        The page.
    bank : dict
        One of ``summary["banks"]``, with filters.
    name : str, default="filters"
        Name of the element, which no other of the page may have.
    """
    kept, data = bank["index"], _grid_data(bank)
    orders = [order for order in ORDERS if order in data]
    # A "<" could end the script element that it stands in.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    options = "".join(f'<option value="{o}">{ORDERS[o]}</option>' for o in orders)
    # Whole multiples of a pixel of a patch, so that all pixels of a tile have one size.
    aim = 40 if len(kept) <= 256 else 30 if len(kept) <= 1024 else 20
    side = data["shape"][1]
    tile = side * max(1, round(aim / side)) if side <= 2 * aim else aim
    label = f"{len(kept):,} filters; arrow keys move, Enter opens one"
    page.add_html(
        f'<section class="filter-grid" id="{escape(name)}">\n'
        f'<div class="sorting"><label>Sort by <select>{options}</select></label>'
        f'<span class="note">Choose a filter to see its responses and patches.</span></div>\n'
        f'<div class="filters" role="group" aria-label="{label}" style="--tile: {tile}px"></div>\n'
        "<noscript><p>The filters are drawn by a script, which is not allowed to run.</p></noscript>\n"
        f'<script type="application/json">{text}</script>\n</section>',
        filters=True,
    )
    notes = []
    if len(kept) < bank["n_filters"]:
        which = (
            f"the {len(kept):,} with the highest kurtosis" if "kurtosis" in bank else "the first"
        )
        notes.append(f"Of {bank['n_filters']:,} filters {which} are shown.")
    if data["shape"][2] == 1 and bank["patch_shape"][2] not in (1, 3):
        notes.append(f"Each picture is the mean of {bank['patch_shape'][2]} channels.")
    if "empty" in bank and bank["empty"].any():
        notes.append("Near-empty filters have a red frame.")
    if notes:
        page.add_html(f'<p class="note">{escape(" ".join(notes))}</p>')


def add_pairs(page: Page, pairs: Mapping[str, str]) -> None:
    """Add names with their values, a line each.

    Parameters
    ----------
    page : Page
        The page.
    pairs : mapping of str to str
        The values by name.
    """
    items = "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs.items())
    page.add_html(f'<dl class="pairs">\n{items}\n</dl>')


def add_charts(page: Page, part: dict[str, Any]) -> None:
    """Add charts of the whitening spectrum, the convergence and the cluster sizes, as far as they are known.

    Parameters
    ----------
    page : Page
        The page.
    part : dict
        One of ``summary["banks"]``, or ``summary["rows"]``.
    """
    charts = []
    if part["spectrum"] is not None:
        charts.append(_spectrum_chart(**part["spectrum"]))
    if part["history"] is not None:
        values, name = part["history"]["objective"], part["history"]["learner"]
        chart = line_chart(
            [Line(values)],
            x=np.arange(len(values)),
            label=f"Objective of {name} after each iteration",
            x_label="iteration",
            y_label="objective",
        )
        # Summaries in older model files have no n_iter.
        n_iter = part["history"].get("n_iter", len(values) - 1)
        charts.append((chart, f"Convergence of {name}: {n_iter} iterations."))
    # Filters of images have a size each, and learners of rows the sizes of their clusters.
    sizes = part.get("size") if "size" in part else part.get("sizes")
    if sizes is not None and len(sizes) > 1:
        ordered = -np.sort(-np.asarray(sizes, np.float64))
        empty = part["empty"] if "empty" in part else near_empty(ordered)
        n_empty = int(np.sum(empty))
        chart = line_chart(
            [Line(100 * ordered / (ordered.sum() or 1))],
            label="Share of rows of each cluster, largest first",
            x_label="clusters, largest first",
            y_label="% of rows",
            log=True,
            shade_from=len(ordered) - n_empty + 0.5 if n_empty else None,
        )
        near = f"{n_empty:,} of {len(ordered):,} near-empty{' (shaded)' if n_empty else ''}."
        charts.append((chart, f"Cluster sizes: {near}"))
    if charts:
        figures = "\n".join(
            f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"
            for chart, caption in charts
        )
        page.add_html(f'<div class="charts">\n{figures}\n</div>')


def add_validation(page: Page, validation: dict[str, Any]) -> None:
    """Add the confusion matrix and examples of errors.

    Parameters
    ----------
    page : Page
        The page.
    validation : dict
        ``summary["validation"]``.
    """
    classes, confusion = validation["classes"], np.asarray(validation["confusion"])
    if len(classes) <= MOST_CLASSES:
        page.add_html(_confusion_table(classes, confusion))
    wrong = confusion - np.diag(np.diag(confusion))
    pairs = [np.unravel_index(i, wrong.shape) for i in np.argsort(-wrong, axis=None)[:10]]
    rows = [(classes[i], classes[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j] > 0]
    if rows and len(classes) > MOST_CLASSES:
        page.add_table(rows, ("true class", "predicted", "images"), caption="Most frequent errors")
    shown = [error for error in validation["errors"] if "image" in error]
    if shown:
        # The script of the page fills each canvas with its pixels.
        items = "\n".join(
            f'<li><canvas role="img" aria-label="image" data-shape="{list(error["image"].shape)}" '
            f'data-pixels="{_base64(error["image"])}"></canvas>'
            f"<span>predicted {escape(error['predicted'])}</span>"
            f"<span>true {escape(error['true'])}</span></li>"
            for error in shown
        )
        page.add_html(
            f'<h3>Errors</h3>\n<p class="note">{len(shown)} of {validation["n_errors"]:,} errors.</p>'
            f'\n<ul class="errors">\n{items}\n</ul>',
            filters=True,
        )


def add_vectors(page: Page, rows: dict[str, Any]) -> None:
    """Add centres or components of a learner of rows, as strips of bars in a table.

    Parameters
    ----------
    page : Page
        The page.
    rows : dict
        ``summary["rows"]``.
    """
    vectors, names = rows["vectors"], rows["names"]
    if not vectors.size:
        return
    # One scale for all strips, so that rows can be compared.
    peak = float(np.abs(vectors).max())
    columns = [("", [str(i) for i in range(len(vectors))])]
    if rows["sizes"] is not None:
        columns.append(("rows", [f"{s:,.0f}" for s in rows["sizes"][: len(vectors)]]))
    if rows["kurtosis"] is not None and len(rows["kurtosis"]) >= len(vectors):
        columns.append(("kurtosis", [f"{k:.2f}" for k in rows["kurtosis"][: len(vectors)]]))
    head = "".join(f'<th scope="col" class="number">{name}</th>' for name, _ in columns)
    body = "\n".join(
        "<tr>"
        + "".join(f'<td class="number">{texts[i]}</td>' for _, texts in columns)
        + f"<td>{strip(vector, peak=peak, label=f'Values of row {i}')}</td></tr>"
        for i, vector in enumerate(vectors)
    )
    page.add_html(
        f'<div class="table">\n<table>\n<thead><tr>{head}<th scope="col">values of '
        f"{rows['n_features']:,} features</th></tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
    notes = []
    if rows["n_vectors"] > len(vectors):
        notes.append(f"The first {len(vectors):,} of {rows['n_vectors']:,} rows are shown.")
    if names:
        notes.append(f"Features, from left to right: {', '.join(names)}.")
    if notes:
        page.add_html(f'<p class="note">{escape(" ".join(notes))}</p>')


def add_signals(page: Page, signals: Mapping[str, np.ndarray]) -> None:
    """Add sets of signals over time side by side, such as mixtures and the sources found in them.

    Parameters
    ----------
    page : Page
        The page.
    signals : mapping of str to ndarray of shape (n_times, n_signals)
        The signals by name of the set. Each is drawn over its own range.
    """
    figures = "\n".join(
        f"<figure>{trace_chart(values, label=name)}<figcaption>{escape(name)}</figcaption></figure>"
        for name, values in signals.items()
    )
    page.add_html(f'<div class="charts">\n{figures}\n</div>')


def _grid_data(bank: dict[str, Any]) -> dict[str, Any]:
    """Return what the script of the page needs of a bank of filters, as JSON values."""
    kept = bank["index"]
    data: dict[str, Any] = {
        "index": kept.tolist(),
        "shape": list(bank["pixels"].shape[1:]),
        "pixels": _base64(bank["pixels"]),
        "empty": bank["empty"][kept].tolist() if "empty" in bank else [False] * len(kept),
    }
    for order in list(ORDERS)[1:]:
        if order in bank and np.isfinite(bank[order]).any():
            # Four digits, and None where there is no number, since JSON has no NaN.
            values = bank[order][kept]
            data[order] = [float(f"{v:.4g}") if np.isfinite(v) else None for v in values]
    if "histogram" in bank:
        # Logarithms, so that the heavy tails of sparse responses can be seen.
        logs = np.log1p(bank["histogram"].astype(np.float64))
        scaled = np.rint(255 * logs / np.maximum(logs.max(axis=1, keepdims=True), 1))
        data |= {"histogram": _base64(scaled.astype(np.uint8)), "n_bins": N_BINS, "reach": REACH}
        data |= {"patches_of": bank["patches_of"].tolist(), "patches": _base64(bank["patches"])}
        data["n_patches"] = int(bank["patches"].shape[1])
    return data


def _spectrum_chart(eigenvalues: np.ndarray, eps: float) -> tuple[str, str]:
    """Return the chart of eigenvalues, and of what whitening with eps makes of them, and its caption."""
    # Never 0 / 0, where a direction has no variance.
    white = eigenvalues / np.maximum(eigenvalues + eps, np.finfo(np.float64).tiny)
    chart = line_chart(
        [Line(eigenvalues, "before"), Line(white, "after", second=True)],
        label="Variance of every direction before and after whitening",
        x_label="directions, largest variance first",
        y_label="variance",
        log=True,
    )
    left = float(white[eigenvalues > 0].mean()) if (eigenvalues > 0).any() else 0.0
    return (
        chart,
        f"Whitening: eps = {eps:.3g} leaves {100 * left:.0f} % of unit variance on average.",
    )


def _confusion_table(classes: list[str], confusion: np.ndarray) -> str:
    """Return the confusion matrix as a table whose cells are shaded by their share of the row."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in classes)
    lines = []
    for i, name in enumerate(classes):
        cells = []
        for j, count in enumerate(confusion[i]):
            kind = "right" if i == j else "none" if count == 0 else "wrong"
            # Errors are rare, and must be seen: they are shaded three times as strongly.
            strength = (
                65 * shares[i, j] if i == j else min(65.0, 15 + 195 * shares[i, j]) * (count > 0)
            )
            cells.append(f'<td class="{kind}" style="--share: {strength:.0f}%">{count}</td>')
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    return (
        "<h3>Confusion matrix</h3>\n"
        '<p class="note">Rows are true classes, columns what was predicted. Errors are red.</p>\n'
        '<div class="table">\n<table class="confusion" aria-label="Confusion matrix">\n'
        f"<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody>\n</table>\n</div>"
    )


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
