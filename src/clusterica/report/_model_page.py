"""The page of one fitted model: what it is and how good it is, advice, filters, errors, settings."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from clusterica.report._advice import advise
from clusterica.report._page import Page
from clusterica.report._summary import summarize
from clusterica.report.sections import (
    add_charts,
    add_facts,
    add_filters,
    add_pairs,
    add_validation,
    add_vectors,
)


def model_page(model: Any, summary: dict[str, Any] | None = None) -> Page:
    """Return a page about a fitted model.

    Parameters
    ----------
    model : estimator
        As for :func:`summarize`.
    summary : dict or None, default=None
        What :func:`summarize` returned, or :func:`clusterica.io.load_summary` read. None takes what the model
        itself knows: the filters, but neither accuracy nor responses.

    Returns
    -------
    Page
        A single file with everything inside; write it with ``page.write("model.html")``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.images import ImageFeatures
    >>> from clusterica.report import model_page, summarize
    >>> X = load_digits().images
    >>> model = ImageFeatures(16, patch_size=4, n_patches=5000, random_state=0).fit(X)
    >>> page = model_page(model, summarize(model, X, source="digits"))
    >>> "ImageFeatures" in page.html()
    True
    """
    summary = summarize(model) if summary is None else summary
    page = Page(f"{summary['model']}: a report")
    page.add_html(f'<p class="lead">{escape(_lead(summary))}</p>')
    add_facts(page, _facts(summary))
    items = "\n".join(f"<li>{escape(text)}</li>" for text in advise(summary))
    if items:
        page.add_html(
            f'<section class="advice"><h2>What to look at</h2>\n<ul>\n{items}\n</ul></section>'
        )
    else:
        page.add_html('<p class="note">Nothing in these numbers looks wrong.</p>')
    if "validation" in summary:
        page.add_heading("Accuracy")
        validation = summary["validation"]
        page.add_text(
            f"{validation['n_errors']:,} errors on {validation['n']:,} images that the model did not see."
        )
        add_validation(page, validation)
    for i, bank in enumerate(summary["banks"]):
        page.add_heading(f"Filters of {bank['name']}" if bank["name"] else "Filters")
        if bank["n_filters"]:
            add_filters(page, bank, name=f"filters-{i}")
        add_charts(page, bank)
    if "rows" in summary:
        rows = summary["rows"]
        page.add_heading("What was learned")
        add_charts(page, rows)
        add_vectors(page, rows)
    _add_layers(page, summary["layers"])
    _add_data(page, summary)
    return page


def _lead(summary: dict[str, Any]) -> str:
    """Return one sentence on what the model is and what it was learned from."""
    data = summary["data"]
    kind = "images" if summary["layers"] else "rows"
    if summary["layers"]:
        parts = [
            f"{row['n_filters']:,} filters of {_times(row['patch'])}"
            + (f" in each of {len(row['groups'])} groups" if len(row["groups"]) > 1 else "")
            for row in summary["layers"]
        ]
        what = "; ".join(dict.fromkeys(parts))
    elif summary["rows"]["n_vectors"]:
        rows = summary["rows"]
        word = "components" if rows["sizes"] is None else "centres"
        what = f"{rows['n_vectors']:,} {word} of {rows['n_features']:,} features"
    else:
        what = "a map of rows"
    if data["n"] is None:
        return f"{what}."
    shape = "" if not data["shape"] else f" of {' × '.join(map(str, data['shape']))}"
    where = "" if data["source"] is None else f" ({data['source']})"
    return f"{what}, learned from {data['n']:,} {kind}{shape}{where}."


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page."""
    facts = []
    if "validation" in summary:
        validation = summary["validation"]
        counts = np.asarray(validation["confusion"]).sum(axis=1)
        facts.append(
            (
                f"{100 * validation['accuracy']:.1f} %",
                f"accuracy on {validation['n']:,} images (chance: {100 * counts.max() / counts.sum():.0f} %)",
            )
        )
    elif "estimated_accuracy" in summary:
        value = f"{100 * summary['estimated_accuracy']:.1f} %"
        facts.append((value, "accuracy on training images that members did not see"))
    banks = [bank for bank in summary["banks"] if bank["n_filters"]]
    if banks:
        word = "filters" if len(summary["layers"]) == 1 else "filters of first layers"
        facts.append((f"{sum(b['n_filters'] for b in banks):,}", word))
        if all("empty" in b for b in banks):
            facts.append((f"{sum(int(b['empty'].sum()) for b in banks):,}", "near-empty filters"))
        if all("kurtosis" in b for b in banks):
            median = np.nanmedian(np.concatenate([b["kurtosis"] for b in banks]))
            facts.append((f"{median:.1f}", "median kurtosis of responses (0: Gaussian)"))
    elif "rows" in summary and summary["rows"]["n_vectors"]:
        rows = summary["rows"]
        word = "components" if rows["sizes"] is None else "clusters"
        facts.append((f"{rows['n_vectors']:,}", word))
        if rows["kurtosis"] is not None:
            facts.append((f"{np.nanmedian(rows['kurtosis']):.1f}", "median kurtosis (0: Gaussian)"))
    if summary["data"]["n"] is not None:
        facts.append((f"{summary['data']['n']:,}", "images" if summary["layers"] else "rows"))
    if summary["seconds"] is not None:
        facts.append((_duration(summary["seconds"]), "to learn"))
    return facts or [(summary["model"], "model")]


def _add_layers(page: Page, layers: list[dict[str, Any]]) -> None:
    """Add the table of layers and groups, without columns that say nothing."""
    if not layers:
        return
    page.add_heading("Layers and groups")
    named, grouped = any(r["network"] for r in layers), any(len(r["groups"]) > 1 for r in layers)
    columns = ["network"] if named else []
    columns += ["layer", "filters", "patch"] + (["groups"] if grouped else []) + ["output"]
    table = []
    for row in layers:
        sizes = sorted(set(row["groups"]))
        span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        line = [row["network"]] if named else []
        line += [str(row["layer"]), row["n_filters"], _times(row["patch"])]
        line += [f"{len(row['groups'])} of {span} maps"] if grouped else []
        table.append([*line, _times(row["output"])])
    page.add_table(table, columns)


def _add_data(page: Page, summary: dict[str, Any]) -> None:
    """Add what the model was learned from, its settings, and the versions of libraries."""
    data = summary["data"]
    page.add_heading("Data, settings and time")
    rows: list[tuple[str, str]] = []
    if data["source"] is not None:
        rows.append(("source", data["source"]))
    if data["n"] is not None:
        shape = " × ".join(map(str, data["shape"])) if data["shape"] else "different sizes"
        left = (
            f"; {data['left_out']:,} left out, damaged or too small" if "left_out" in data else ""
        )
        rows.append(("images" if summary["layers"] else "rows", f"{data['n']:,} of {shape}{left}"))
    if data["classes"]:
        counted = zip(data["classes"], data["counts"], strict=True)
        rows.append(("classes", ", ".join(f"{name} ({count:,})" for name, count in counted)))
    for bank in summary["banks"]:
        if bank["n_learned_from"] is not None:
            name = f"patches ({bank['name']})" if bank["name"] else "patches"
            looked = f"; {bank['n_sampled']:,} for this page" if "n_sampled" in bank else ""
            rows.append((name, f"{bank['n_learned_from']:,}{looked}"))
    if summary["seconds"] is not None:
        rows.append(("time", _duration(summary["seconds"])))
    rows.append(("versions", ", ".join(f"{k} {v}" for k, v in summary["versions"].items())))
    add_pairs(page, dict(rows))
    page.add_html("<h3>Settings</h3>")
    add_pairs(page, summary["settings"])


def _times(text: str) -> str:
    """Return a shape such as 6x6x3 with real signs: 6 × 6 × 3, and 6 × 6 if it is grey."""
    return text.removesuffix("x1").replace("x", " × ")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
