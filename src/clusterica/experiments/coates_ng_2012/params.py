"""Coates & Ng 2012, section 4.1: accuracy on held-out images as one setting of the pipeline changes.

Around pool(max(0, ±Dᵀx - α)) with filters D of gain-shape K-means; conclusions 7 and 8 of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from clusterica.arrays import as_generator
from clusterica.cluster import KMeans
from clusterica.encoders import OMPEncoder, SoftThresholdEncoder
from clusterica.experiments._checks import rises
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._recognition import (
    Labeled,
    Split,
    cifar10,
    evaluate,
    percent,
    rows_of,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.images import ImageFeatures
from clusterica.ops.linalg import unit_rows
from clusterica.preprocessing import ContrastNormalizer, Whitener

DEFAULT = "default"
NOTE = (
    "One setting differs from the default in each row, the others do not. Filters and classifier see the "
    "training part alone, and C is chosen on a share of it; accuracy is on the validation part, also taken "
    "from the training images, and the test images are not looked at. Its standard error is {error:.1f} "
    "points; the checks ask for differences of two standard errors."
)


class Setting(NamedTuple):
    """A row of the table: what differs from the default."""

    factor: str
    name: str
    changes: Mapping[str, Any]
    paper: str = ""


class GaussianFilters(BaseEstimator):
    """Filters that are not learned: rows of Gaussian noise, scaled to unit length.

    Parameters
    ----------
    n_components : int, default=8
        Number of filters.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the noise.
    """

    def __init__(self, n_components: int = 8, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the filters; of X only the number of features counts."""
        rng = as_generator(self.random_state)
        self.components_ = unit_rows(rng.standard_normal((self.n_components, X.shape[1])))
        return self


@experiment(
    "P1-params",
    title="What the settings of the pipeline are worth",
    paper="Coates & Ng 2012, sections 4.1 and 4.2, conclusions 7 and 8",
    claim="Settings such as pooling and encoder can matter more than the learning algorithm, and more "
    "centroids almost always help.",
    options=("data", "device"),
    needs="CIFAR-10, a GPU",
    minutes=1.1,
)
def run(ctx: Context) -> Result:
    """Train and score one setting after the other."""
    split = _validation_split(ctx)
    base: dict[str, Any] = {
        "n_filters": ctx.choose(full=400, quick=32),
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=200_000, quick=10_000),
    }
    rows = _settings(base, quick=ctx.quick)
    accuracies: list[float] = []
    strengths: list[Any] = []
    for row in ctx.track(rows, "Settings"):
        features = ImageFeatures(**{**base, "random_state": ctx.seed, **row.changes})
        outcome = evaluate(features, split)
        accuracies.append(outcome.accuracy)
        strengths.append(outcome.C)
    n, spans = len(split.test.labels), _spans(rows, accuracies)
    error = float(np.sqrt(accuracies[0] * (1 - accuracies[0]) / n))
    found = _by_factor(rows, accuracies)
    return Result(
        columns=("Factor", "Setting", "The paper says", f"{split.name} (%)", "Points", "C"),
        rows=[
            (row.factor, row.name, row.paper, percent([a]), _points(a - accuracies[0]), f"{C:.3g}")
            for row, a, C in zip(rows, accuracies, strengths, strict=True)
        ]
        + [_conclusion(spans)],
        values={
            "accuracies": found,
            "spans": spans,
            "C": _by_factor(rows, strengths),
        },
        settings={
            "data": split.name,
            "n_train": len(split.train.labels),
            "n_validation": n,
            **base,
            "settings": [f"{row.factor}: {row.name}" for row in rows],
        },
        pictures=(_picture(rows, accuracies),),
        note=NOTE.format(error=100 * error),
        checks=checks(found, spans, error=error, default=base),
    )


def checks(
    found: Mapping[str, Mapping[str, float]],
    spans: Mapping[str, float],
    *,
    error: float,
    default: Mapping[str, Any],
) -> list[Check]:
    """Ask whether settings are worth what the paper says.

    Parameters
    ----------
    found : mapping
        Accuracies by factor and setting; that of the default under ``default``.
    spans : mapping
        Best less worst accuracy of each factor.
    error : float
        Standard error of an accuracy.
    default : mapping
        Number of filters and patch size of the default.

    Returns
    -------
    list of Check
    """
    (usual,) = found[DEFAULT].values()
    two = 2 * error
    by_filters = {int(n): a for n, a in found["filters"].items()} | {default["n_filters"]: usual}
    by_filters = dict(sorted(by_filters.items()))
    size = f"{default['patch_size']} x {default['patch_size']}"
    outside = max(spans[factor] for factor in ("encoder", "grid", "pooling"))
    return [
        Check(
            "encoder and pooling can have a bigger impact than the learning algorithm (conclusion 7): the "
            "span of one of them is larger than that of learners",
            outside > spans["learner"],
            ", ".join(
                f"{factor} {100 * spans[factor]:.1f} points"
                for factor in ("encoder", "grid", "pooling", "learner")
            ),
        ),
        Check(
            "more centroids almost always help (conclusion 8): accuracy rises with every doubling",
            rises(list(by_filters.values())),
            ", ".join(f"{n}: {100 * a:.1f}" for n, a in by_filters.items()),
        ),
        _near_best("patch size", (size, "8 x 8"), {**found["patch size"], size: usual}, two),
        _near_best("grid", ("2 x 2", "3 x 3"), {**found["grid"], "2 x 2": usual}, two),
        _near_best("pooling", ("sum",), {**found["pooling"], "sum": usual}, two),
        *(
            _worse(factor, name, said, found[factor][name], usual, two)
            for factor, name, said in (
                ("encoder", "hard, equation (1)", "performs very poorly (section 4.2)"),
                ("encoder", "hard, nearest of KMeans", "performs very poorly (section 4.2)"),
                ("encoder", "sigmoid", "works significantly less well (section 4.2)"),
                ("whitening ε", "no whitening", "works poorly (section 2.1)"),
            )
        ),
    ]


def _near_best(
    factor: str, names: tuple[str, ...], found: Mapping[str, float], margin: float
) -> Check:
    """Ask whether settings are as good as the best of their factor, up to chance."""
    known = [name for name in names if name in found]
    best = max(found, key=lambda name: found[name])
    return Check(
        f"{factor} {' and '.join(known)} work well: within two standard errors of the best {factor}",
        all(found[name] >= found[best] - margin for name in known),
        ", ".join(f"{name} {100 * found[name]:.1f}" for name in dict.fromkeys((*known, best))),
    )


def _worse(factor: str, name: str, said: str, found: float, usual: float, margin: float) -> Check:
    """Ask whether a setting is worse than the default beyond chance."""
    return Check(
        f"{factor} “{name}” {said}: worse than the default by more than two standard errors",
        found < usual - margin,
        f"{100 * (found - usual):+.1f} points, two standard errors are {100 * margin:.1f}",
    )


def _validation_split(ctx: Context) -> Split:
    """Return two parts of the training images: to train on, and in the place of a test set."""
    split = cifar10(ctx)
    images, labels = split.train
    n_train, n_validation = ctx.choose(full=(10_000, 5_000), quick=(300, 900))
    order = np.random.default_rng(ctx.seed).permutation(len(labels))
    parts = np.split(order[: n_train + n_validation], [n_train])
    train, held_out = (Labeled(rows_of(images, part), labels[part]) for part in parts)
    return Split(train, held_out, split.name)


def _settings(base: Mapping[str, Any], *, quick: bool) -> list[Setting]:
    """Return the default and what departs from it; on small images fewer sizes of patches and grids."""
    k, p = base["n_filters"], base["patch_size"]
    sizes = (3, 5, 6) if quick else (4, 8, 10, 12)
    strides = (2,) if quick else (2, 4)
    grids = (1, 4) if quick else (1, 3, 4)
    return [
        Setting(DEFAULT, f"{k} filters, {p} x {p}, both signs, 2 x 2 sums", {}),
        *(
            Setting("filters", f"{n}", {"n_filters": n}, "more almost always help (8)")
            for n in (k // 4, k // 2, 2 * k, 4 * k)
        ),
        *(
            Setting("patch size", f"{n} x {n}", {"patch_size": n}, "6 or 8 work well (4.1)")
            for n in sizes
        ),
        *(Setting("stride", f"{n}", {"stride": n}, "saves computing (4)") for n in strides),
        *(
            Setting("grid", f"{n} x {n}", {"grid": (n, n)}, "2 x 2 or 3 x 3 work well (4.1)")
            for n in grids
        ),
        *_pooling_and_codes(),
        *_learning(),
    ]


def _pooling_and_codes() -> list[Setting]:
    def soft(alpha: float) -> Setting:
        encoder = SoftThresholdEncoder(alpha=alpha)
        return Setting("threshold α", f"{alpha:g}", {"encoder": encoder}, "α is tunable (4.2)")

    one_side = SoftThresholdEncoder(two_sided=False)
    k_means = KMeans(init="gaussian", max_iter=50, compute_labels=False)
    hard = {"learner": k_means, "encoder": "hard"}
    code = OMPEncoder(n_nonzero=1)
    return [
        Setting("pooling", "max", {"pooling": "max"}, "sums or maxima; averages work well (4.1)"),
        Setting("pooling", "l2", {"pooling": "l2"}),
        Setting("encoder", "one sign", {"encoder": one_side}, "max(0, Dᵀx - α) works well (4.2)"),
        Setting("encoder", "hard, equation (1)", {"encoder": code}, "very poor (4.2)"),
        Setting("encoder", "hard, nearest of KMeans", hard, "very poor (4.2)"),
        Setting(
            "encoder", "triangle of KMeans", {**hard, "encoder": "triangle"}, "in [11] of the paper"
        ),
        Setting("encoder", "sigmoid", {"encoder": "sigmoid"}, "significantly less well (4.2)"),
        *(soft(alpha) for alpha in (0.0, 0.5, 1.0)),
    ]


def _learning() -> list[Setting]:
    def contrast(eps: float) -> Setting:
        changes = {"normalizer": ContrastNormalizer(eps)}
        return Setting("contrast ε", f"{eps:g}", changes, "10 is a good start (2.1)")

    def whitening(eps: float) -> Setting:
        changes = {"whitener": Whitener(eps=eps)}
        return Setting("whitening ε", f"{eps:g}", changes, "0.1 is a good start (2.1)")

    noise = {"learner": GaussianFilters()}
    return [
        *(contrast(eps) for eps in (1.0, 100.0, 1000.0)),
        *(whitening(eps) for eps in (0.01, 1.0)),
        Setting("whitening ε", "no whitening", {"whitener": None}, "works poorly (2.1)"),
        Setting("learner", "random patches", {"learner": "patches"}, "matters less (7)"),
        Setting("learner", "Gaussian noise", noise, "matters less (7)"),
    ]


def _by_factor(rows: list[Setting], values: list[float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row, value in zip(rows, values, strict=True):
        found.setdefault(row.factor, {})[row.name] = value
    return found


def _spans(rows: list[Setting], accuracies: list[float]) -> dict[str, float]:
    """Return by how much accuracy differs over the settings of a factor, the default among them."""
    found = _by_factor(rows, accuracies)
    return {
        factor: max(*named.values(), accuracies[0]) - min(*named.values(), accuracies[0])
        for factor, named in found.items()
        if factor != DEFAULT
    }


def _conclusion(spans: Mapping[str, float]) -> tuple[str, ...]:
    """Return the row that compares encoding and pooling with learning."""
    factors = ("encoder", "grid", "pooling", "learner")
    points = " / ".join(f"{100 * spans[factor]:.1f}" for factor in factors)
    return ("best less worst", " / ".join(factors), "the learner matters less (7)", "", points, "")


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}" if difference else ""


def _picture(rows: list[Setting], accuracies: list[float]) -> Picture:
    """Draw a dot for every setting, factor under factor."""
    figure, (ax,) = side_by_side(1, width=6.8, height=0.8 + 0.21 * len(rows))
    percents = 100 * np.array(accuracies)
    places = np.arange(len(rows)) + 0.7 * np.cumsum(
        [i > 0 and rows[i].factor != rows[i - 1].factor for i in range(len(rows))]
    )
    ax.axvline(percents[0], color="0.6", linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    ax.hlines(places, percents[0], percents, color="#9db8d6", linewidth=1.6)
    ax.plot(percents[1:], places[1:], "o", color="#2f5d8c", markersize=4.5)
    ax.plot(percents[:1], places[:1], "o", color="#d62728", markersize=5.5)
    names = [row.name if row.factor == DEFAULT else f"{row.factor}: {row.name}" for row in rows]
    ax.set_yticks(places, names, fontsize=8)
    ax.set(xlabel="accuracy on held-out training images (%)", ylim=(places[-1] + 0.8, -0.8))
    ax.grid(axis="x", color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return Picture(
        figure,
        caption="Accuracy as one setting departs from the default (red, dashed line), factor by "
        "factor.",
        alt="A dot for every setting along an axis of accuracy, grouped by factor, with the default "
        "at the top.",
    )
