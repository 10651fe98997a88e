"""Kernel RICA with no argument but the number of vectors: how many die, and how good its codes are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from clusterica.cluster import KMeans
from clusterica.datasets import load_mnist
from clusterica.encoders import TriangleEncoder
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import cifar10, percent
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    few_steps,
    share_dead,
    share_in_words,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import difference
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.rica import DiscriminativeKernelRICA, KernelRICA

NOTE = (
    "{n_splits} splits into 60 % of the rows, from which codes and classifier (LinearSVC, C chosen inside "
    "them) are learned, and 40 % that are scored. Features of tables are standardised on the former, pixels "
    "are as they are. K-means and both forms of kernel RICA have no argument but the number of vectors. "
    "Differences are those of the same split: their mean in standard errors over the splits. Dead: basis "
    "vectors with k(w, x) < 0.01 for all rows, the largest share of a split. '50 a class': 50 rows of each "
    "class to learn from, all others scored. With --data also the first 5,000 training images of MNIST, and "
    "20,000 patches of 6 x 6 pixels of 5,000 training images of CIFAR-10, after contrast normalisation and "
    "whitening, for dead vectors alone."
)
METHODS = ("triangle", "kRICA", "d-kRICA")


class Table(NamedTuple):
    """Rows with labels, and the number of basis vectors of a class."""

    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    per_class: int
    standardized: bool = True
    few_labels: bool = False
    """Whether it is learned from 50 rows a class too."""


@experiment(
    "P4-defaults",
    title="Kernel RICA without arguments",
    paper="Xiao, Zhu & Zhao 2013, sections 4 and 5",
    claim="Codes of kernel RICA are good for classification, and labels make them better.",
    draws=False,
    options=("data", "rows"),
    needs="MNIST and CIFAR-10 (last rows)",
    minutes=4,
)
def run(ctx: Context) -> Result:
    """Learn and score all codes on every split of every set."""
    n_splits = ctx.choose(full=10, quick=2)
    tables = _tables(ctx)
    jobs: dict[str, Callable[[], Any]] = {}
    for name, table in tables.items():
        jobs[name] = partial(_score_splits, ctx, table, n_splits, few=False)
        if table.few_labels:
            jobs[f"{name}, 50 a class"] = partial(_score_splits, ctx, table, n_splits, few=True)
    patches = "CIFAR-10 patches"
    if ctx.data is not None:
        jobs[patches] = partial(_dead_on_patches, ctx)
    settings = {"n_splits": n_splits, "per_class": {n: t.per_class for n, t in tables.items()}}
    found = ctx.parts(settings, jobs)
    return Result(
        columns=(
            "Data",
            "Vectors",
            "K-means, triangle (%)",
            "kRICA (%)",
            "kRICA dead",
            "kRICA - triangle",
            "d-kRICA (%)",
            "d-kRICA dead",
            "d-kRICA - triangle",
            "d-kRICA - kRICA",
        ),
        rows=[_row(name, value) for name, value in found.items()],
        values={},
        settings=settings,
        note=NOTE.format(n_splits=n_splits),
        checks=() if ctx.quick else _checks(found),
    )


def _tables(ctx: Context) -> dict[str, Table]:
    tables = {
        "digits": Table(partial(load_digits, return_X_y=True), 10, False, True),
        "breast cancer": Table(partial(load_breast_cancer, return_X_y=True), 30),
        "wine": Table(partial(load_wine, return_X_y=True), 14),
        "iris": Table(partial(load_iris, return_X_y=True), 10),
    }
    if ctx.data is not None:
        tables["MNIST rows"] = Table(partial(_mnist, ctx), 20, False, True)
    return tables


def _mnist(ctx: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return the first training images of MNIST as rows of pixels, and their labels."""
    found, n = load_mnist(ctx.data), ctx.choose(full=5000, quick=1000)
    assert found.labels is not None
    return found.images[:n].reshape(n, -1).astype(np.float32), found.labels[:n]


def _score_splits(ctx: Context, table: Table, n_splits: int, *, few: bool) -> dict[str, Any]:
    """Return for every kind of codes the accuracy on every split, and the shares of dead vectors."""
    X, y = table.load()
    n_classes = len(np.unique(y))
    size: dict[str, Any] = {"train_size": 50 * n_classes} if few else {"test_size": 0.4}
    splits = StratifiedShuffleSplit(n_splits, random_state=ctx.seed, **size).split(X, y)
    n = table.per_class * n_classes
    found: dict[str, Any] = {"n": n, "dead": {name: [] for name in METHODS[1:]}}
    found |= {name: [] for name in METHODS}
    for seed, (train, test) in enumerate(splits):
        scaler = StandardScaler(with_mean=table.standardized, with_std=table.standardized)
        A = scaler.fit_transform(X[train])
        B = scaler.transform(X[test])
        for name in METHODS:
            with few_steps():
                codes = _learned(name, table.per_class, n, A, y[train], seed)
            classifier = LinearSVC(C="auto", random_state=0).fit(codes.transform(A), y[train])
            found[name].append(float(classifier.score(codes.transform(B), y[test])))
            if name != "triangle":
                found["dead"][name].append(codes.n_dead_ / n)
    return found


def _learned(name: str, per_class: int, n: int, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Return fitted codes."""
    if name == "kRICA":
        return KernelRICA(n, random_state=seed).fit(X)
    if name == "d-kRICA":
        return DiscriminativeKernelRICA(per_class, random_state=seed).fit(X, y)
    return TriangleEncoder(KMeans(n, random_state=seed).fit(X).cluster_centers_).fit(X)


def _dead_on_patches(ctx: Context) -> dict[str, Any]:
    """Return the shares of dead vectors on white patches of CIFAR-10."""
    n, n_images = ctx.choose(full=(400, 5000), quick=(40, 200))
    train = cifar10(ctx).train
    dead = {}
    for name, learner in (("kRICA", KernelRICA()), ("d-kRICA", DiscriminativeKernelRICA())):
        features = ImageFeatures(
            n,
            patch_size=6,
            n_patches=50 * n,
            learner=learner,
            encoder="transform",
            random_state=ctx.seed,
        )
        with few_steps():
            features.fit(train.images[:n_images], train.labels[:n_images])
        dead[name] = [share_dead(features)]
    return {"n": n, "dead": dead}


def _row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    dead = {method: share_in_words(max(shares)) for method, shares in found["dead"].items()}
    if "triangle" not in found:
        return (name, str(found["n"]), "", "", dead["kRICA"], "", "", dead["d-kRICA"], "", "")
    plain, kernel, labeled = (found[method] for method in METHODS)
    return (
        name,
        str(found["n"]),
        percent(plain),
        percent(kernel),
        dead["kRICA"],
        str(difference(kernel, plain)),
        percent(labeled),
        dead["d-kRICA"],
        str(difference(labeled, plain)),
        str(difference(labeled, kernel)),
    )


def _checks(found: dict[str, Any]) -> tuple[Check, ...]:
    """Return what the defaults must reach: few dead, as good as triangle codes, labels that help."""
    checks: list[Check] = []
    scored = {name: value for name, value in found.items() if "triangle" in value}
    for method in METHODS[1:]:
        most = {name: max(value["dead"][method]) for name, value in found.items()}
        worst = max(most, key=lambda name: most[name])
        checks.append(
            Check(
                f"{method}: less than 5 % of the basis are dead on all data",
                most[worst] < 0.05,
                f"at most {100 * most[worst]:.2g} %, on {worst}" if most[worst] else "none is",
            )
        )
        for name, value in scored.items():
            gap = difference(value[method], value["triangle"])
            said = f"{method} on {name}: not worse than triangle codes by more than an SE"
            checks.append(Check(said, gap.mean >= -gap.error, f"difference {gap}"))
    for name, value in scored.items():
        gap = difference(value["d-kRICA"], value["kRICA"])
        said = f"{name}: d-kRICA is above kRICA by more than an SE"
        checks.append(Check(said, gap.is_gain, f"difference {gap}"))
    return tuple(checks)
