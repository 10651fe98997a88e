"""``clusterica demo``: filters, a classifier, separated sources and two figures of the papers on one page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from clusterica.cli._console import stop
from clusterica.cli._reproduce import add_outcome, ready, run_watched
from clusterica.datasets import load_digits_images
from clusterica.experiments import Outcome
from clusterica.ica import ClusterICA
from clusterica.images import ImageFeatures
from clusterica.networks import FeatureNetwork, ImageClassifier, Layer
from clusterica.report import Page, summarize
from clusterica.report.sections import (
    add_charts,
    add_facts,
    add_filters,
    add_signals,
    add_validation,
)

INTRODUCTION = (
    "K-means on whitened data tends to find what ICA finds: the directions in which the data is "
    "sparse. On images these are edges and textures, good features for a classifier; on mixed signals they "
    "are the sources. All of this page was computed on your machine."
)


class Separated(NamedTuple):
    """Mixed signals, the sources found in them and the true ones, and both mixing matrices, in one order."""

    mixed: np.ndarray
    found: np.ndarray
    true: np.ndarray
    mixing: np.ndarray
    true_mixing: np.ndarray

    @property
    def correlations(self) -> np.ndarray:
        """Correlation of every source with the true one."""
        pairs = zip(self.found.T, self.true.T, strict=True)
        return np.array([np.corrcoef(a, b)[0, 1] for a, b in pairs])


class Demo(NamedTuple):
    """What the page shows."""

    photographs: dict[str, Any]
    digits: dict[str, Any]
    sources: Separated
    outcomes: list[Outcome]


def run_demo(*, output: Path, quick: bool) -> None:
    """Run all parts of the demo and write the page."""
    console = Console(highlight=False)
    # All are checked first, so that a missing library is reported before a minute of work.
    experiments = [ready(name, output=output) for name in ("P1-fig1", "P1-fig2")]

    def timed(title: str, part: Callable[[], Any]) -> Any:
        console.print(f"[bold]{title}[/]")
        start = time.perf_counter()
        found = part()
        console.print(f"done in {time.perf_counter() - start:.1f} s", style="dim")
        return found

    demo = Demo(
        timed("Filters of two photographs", lambda: learn_photographs(quick=quick)),
        timed("A classifier of handwritten digits", lambda: learn_digits(quick=quick)),
        timed("Sources of mixed signals", separate_signals),
        [run_watched(e, console=console, quick=quick, output=output) for e in experiments],
    )
    try:
        path = demo_page(demo).write(output / "index.html")
    except OSError as error:
        stop(f"cannot write the page: {error}. Choose another folder with -o.")
    console.print("\n[bold]Open this page in a browser:[/]")
    console.print(str(path), soft_wrap=True, markup=False)


def learn_photographs(*, quick: bool) -> dict[str, Any]:
    """Learn filters from the photographs of scikit-learn, and summarize them."""
    from sklearn.datasets import load_sample_images

    photographs = [np.asarray(image) for image in load_sample_images().images]
    start = time.perf_counter()
    model = ImageFeatures(
        64 if quick else 256,
        patch_size=8,
        n_patches=10_000 if quick else 100_000,
        random_state=0,
    ).fit(photographs)
    seconds = time.perf_counter() - start
    return summarize(model, photographs, source="two photographs", seconds=seconds)


def learn_digits(*, quick: bool) -> dict[str, Any]:
    """Train a classifier on two thirds of the digits of scikit-learn, and summarize it on the others."""
    digits = load_digits_images()
    images, labels = digits.images, np.asarray(digits.labels)
    is_held = np.arange(len(images)) % 3 == 0
    layer = Layer(64 if quick else 256, patch_size=4, n_patches=10_000 if quick else 30_000)
    start = time.perf_counter()
    model = ImageClassifier([FeatureNetwork([layer], power=0.5)], random_state=0)
    model.fit(images[~is_held], labels[~is_held])
    return summarize(
        model,
        images[~is_held],
        labels=labels[~is_held],
        validation=(images[is_held], labels[is_held]),
        source="scikit-learn's digits",
        seconds=time.perf_counter() - start,
    )


def separate_signals() -> Separated:
    """Mix three sparse signals and separate them."""
    rng, t = np.random.default_rng(0), np.arange(6000)
    bursts = np.sin(t / 5) * (np.sin(t / 97) > 0.6)
    decay = np.exp(-np.arange(60) / 12)
    spikes = np.convolve(rng.random(len(t)) < 0.01, decay)[: len(t)]
    saw = ((t % 40) / 20 - 1) * (np.cos(t / 173) > 0.7)
    true = np.column_stack([bursts, spikes, saw])
    true = (true - true.mean(axis=0)) / true.std(axis=0)
    A = rng.uniform(-1, 1, (3, 3)) + np.eye(3)
    X = true @ A.T + 0.01 * rng.standard_normal(true.shape)
    model = ClusterICA(random_state=0).fit(X)
    found = np.asarray(model.transform(X))
    # ICA finds neither the order of the sources nor their signs: those of the true ones are taken.
    correlation = np.corrcoef(found.T, true.T)[:3, 3:]
    order = np.abs(correlation).argmax(axis=0)
    signs = np.sign(correlation[order, np.arange(3)])
    return Separated(X, found[:, order] * signs, true, model.mixing_[:, order] * signs, A)


def demo_page(demo: Demo) -> Page:
    """Return the page: the main numbers, then a section for each part."""
    page = Page("clusterica: features from unlabeled data")
    page.add_html(f'<p class="lead">{INTRODUCTION}</p>')
    bank = demo.photographs["banks"][0]
    validation = demo.digits["validation"]
    add_facts(
        page,
        [
            (f"{bank['n_filters']}", "filters learned from two photographs, without labels"),
            (f"{100 * validation['accuracy']:.1f} %", f"of {validation['n']} digits recognised"),
            (
                f"{demo.sources.correlations.min():.3f}",
                "least correlation of a source with the true one",
            ),
        ],
    )
    page.add_heading("Filters learned from two photographs")
    page.add_text(
        f"{bank['n_learned_from']:,} patches of 8 × 8 pixels were normalised, whitened and clustered. Each "
        "centre is a filter: many are edges, at all angles and widths, and some are colours."
    )
    add_filters(page, bank, name="photographs")
    add_charts(page, bank)
    page.add_heading("A classifier of handwritten digits")
    digits = demo.digits["banks"][0]
    page.add_text(
        f"{digits['n_filters']} filters of 4 × 4 pixels, learned without labels from "
        f"{demo.digits['data']['n']:,} digits; a linear classifier on their pooled codes made "
        f"{validation['n_errors']} errors on {validation['n']} others."
    )
    add_validation(page, validation)
    page.add_html("<h3>Its filters</h3>")
    add_filters(page, digits, name="digits")
    _add_sources(page, demo.sources)
    for outcome in demo.outcomes:
        page.add_heading(outcome.experiment.title)
        add_outcome(page, outcome)
    return page


def _add_sources(page: Page, sources: Separated) -> None:
    page.add_heading("Sources of mixed signals")
    page.add_text(
        "Three signals were mixed. ClusterICA sees only the mixtures: it clusters the whitened rows, and "
        "goes on from there to the most likely sources."
    )
    some = slice(0, 900)  # a few bursts of each source; more could not be told apart on the page
    add_signals(
        page,
        {
            "What was recorded: mixtures": sources.mixed[some],
            "Sources that were found": sources.found[some],
            "True sources": sources.true[some],
        },
    )
    rows = [
        (str(i), *(f"{a:.2f} ({b:.2f})" for a, b in zip(*both, strict=True)))
        for i, both in enumerate(zip(sources.mixing, sources.true_mixing, strict=True), 1)
    ]
    columns = ("mixture", "source 1", "source 2", "source 3")
    page.add_table(rows, columns, caption="The mixing matrix as it was found (and the true one)")
