"""What eta, alpha, gamma and the number of steps do to the paper's codes, on scikit-learn's digits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica.experiments._context import Context
from clusterica.experiments._recognition import percent
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import few_steps
from clusterica.experiments.xiao_zhu_zhao_2013._notes import difference
from clusterica.kernels import median_gamma
from clusterica.ops.code import split_signs
from clusterica.ops.linalg import unit_rows
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

NOTE = (
    "Rows of 64 pixels in 0..1, about their mean for RICA and of unit length for kernels. Logistic "
    "regression on standardised codes, both signs of those without a kernel, is trained on half of the "
    "digits and scored on the others; mean and deviation over draws. K = 100 without a kernel, 40 with "
    "one; λ = 0.1 and 0.01. RICA, DRICA and d-RICA take at most {steps} steps, d-kRICA {kernel_steps}. "
    "Free lengths are equation 2 of the paper; tight ones are of this library: filters of unit length, and "
    "reconstructions divided by K over the number of directions in which rows vary. Dead: basis vectors with "
    "k(w, x) < 0.01 for all rows. Differences are those of the same draw: their mean in points, and in "
    "standard errors over the draws; a method is more accurate by more than one."
)

# The objective of the paper; P4-defaults has that of the library.
PAPER: dict[str, Any] = {
    "scale": 1.0,
    "sparsity": 0.01,
    "normalize": True,
    "unit_codes": False,
    "tol": 1e-5,
}


class Trial(NamedTuple):
    """A learner, and in words what is set."""

    method: str
    setting: str
    learner: Any


@experiment(
    "P4-digits",
    title="What eta, alpha, gamma and steps do",
    paper="Xiao, Zhu & Zhao 2013, sections 4 and 5",
    claim="The discrimination term with eta of k + 1 makes codes more discriminative.",
    draws=False,
    minutes=4,
)
def run(ctx: Context) -> Result:
    """Train and score every setting on every draw."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    n_draws = ctx.choose(full=3, quick=1)
    gamma = median_gamma(unit_rows(X), np.random.default_rng(ctx.seed))
    steps = ctx.choose(full=60, quick=5)
    trials = list(_trials(gamma, steps))
    trials = ctx.choose(full=trials, quick=trials[::9])
    halves = [np.random.default_rng([ctx.seed, i]).permutation(len(X)) for i in range(n_draws)]
    found: list[tuple[list[float], list[int]]] = []
    for trial in ctx.track(trials, "Settings"):
        found.append(([], []))
        for seed, order in enumerate(halves):
            accuracy, n_dead = _score(trial, X, y, order, seed)
            found[-1][0].append(accuracy)
            found[-1][1].extend([] if n_dead is None else [n_dead])
    values = {
        f"{t.method}, {t.setting}": {"accuracies": a, "dead": d}
        for t, (a, d) in zip(trials, found, strict=True)
    }
    return Result(
        columns=("Method", "Setting", "Accuracy, digits (%)", "Dead"),
        rows=[
            (t.method, t.setting, percent(a), f"{min(d)} to {max(d)}" if d else "")
            for t, (a, d) in zip(trials, found, strict=True)
        ],
        values=values,
        settings={"n_draws": n_draws, "median gamma": gamma},
        # The quick version leaves out rows that are compared.
        checks=() if ctx.quick else checks(values),
        note=NOTE.format(steps=steps, kernel_steps=trials[-1].learner.max_iter),
    )


def checks(values: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Return the paper's claims about the discrimination term, at its α = 0.1, and whether they hold."""

    def compare(claim: str, ours: str, other: str) -> Check:
        gain = difference(values[ours]["accuracies"], values[other]["accuracies"])
        # A basis that died was not improved by the term, whatever its accuracy.
        dead = [max(values[name]["dead"], default=0) for name in (ours, other)]
        words = f"; up to {dead[0]} basis vectors are dead, {dead[1]} of the other" * any(dead)
        return Check(f"{claim}, α = 0.1", gain.is_gain, f"{gain}{words}")

    found = []
    for words in ("tight", "free lengths"):
        ours = f"d-RICA, {words}, α = 0.1, η = k + 1"
        found += [
            compare(f"d-RICA ({words}) is more accurate than RICA", ours, f"RICA, {words}"),
            compare(
                f"d-RICA ({words}) is more accurate than DRICA", ours, f"DRICA, {words}, α = 0.1"
            ),
        ]
    kernel = "d-kRICA, γ = 2 x median, α = "
    ours = f"{kernel}0.1, η = k + 1"
    return [
        *found,
        compare("d-kRICA is more accurate than without the term", ours, f"{kernel}0, η = k + 1"),
        compare(
            "d-kRICA is more accurate than with the inhomogeneous cost alone",
            ours,
            f"{kernel}0.1, inhomogeneous",
        ),
    ]


def _trials(gamma: float, steps: int) -> Iterator[Trial]:
    """Yield the settings: d-RICA over eta and alpha, kRICA over gamma and steps, d-kRICA over alpha."""
    k = 10
    for norm, words in (("tight", "tight"), (False, "free lengths")):
        same: dict[str, Any] = {"unit_norm": norm, "max_iter": steps}
        yield Trial("RICA", words, RICA(10 * k, **same))
        for alpha in (0.01, 0.1, 1.0):
            given = {"discrimination": alpha, **same}
            learner = DiscriminativeRICA(k, constraint="inhomogeneous", **given)
            yield Trial("DRICA", f"{words}, α = {alpha:g}", learner)
            for eta, name in (
                (0.0, "0"),
                (k / 2, "k/2"),
                (k, "k"),
                (k + 1, "k + 1"),
                (10 * k, "10 k"),
            ):
                learner = DiscriminativeRICA(k, eta=float(eta), **given)
                yield Trial("d-RICA", f"{words}, α = {alpha:g}, η = {name}", learner)
    for times in (1, 2, 4, 8):
        for n in (1, 2, 10, 200):
            learner = KernelRICA(40, gamma=times * gamma, max_iter=n, **PAPER)
            yield Trial("kRICA", f"γ = {times} x median, {n} steps", learner)
    make: Callable[..., Any] = DiscriminativeKernelRICA
    for alpha in (0.0, 0.01, 0.1, 1.0):
        kernel = {"gamma": 2 * gamma, "discrimination": alpha, **PAPER}
        yield Trial("d-kRICA", f"γ = 2 x median, α = {alpha:g}, η = k + 1", make(4, **kernel))
        learner = make(4, constraint="inhomogeneous", **kernel)
        yield Trial("d-kRICA", f"γ = 2 x median, α = {alpha:g}, inhomogeneous", learner)


def _score(
    trial: Trial, X: np.ndarray, y: np.ndarray, order: np.ndarray, seed: int
) -> tuple[float, int | None]:
    """Return the accuracy on the second half of the rows, and the number of dead basis vectors."""
    train, test = np.split(order, [len(order) // 2])
    learner = trial.learner.set_params(random_state=seed)
    with few_steps(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="eta=")
        codes = learner.fit(X[train], y[train]).transform(X)
    if trial.method in ("RICA", "DRICA", "d-RICA"):
        codes = split_signs(codes)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    accuracy = classifier.fit(codes[train], y[train]).score(codes[test], y[test])
    return float(accuracy), getattr(learner, "n_dead_", None)
