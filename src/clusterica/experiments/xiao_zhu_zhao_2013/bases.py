"""What becomes of bases where Xiao, Zhu & Zhao leave a choice: lengths, steps, gamma, optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import FastICA

from clusterica.datasets import photo_patches
from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import few_steps
from clusterica.kernels import median_gamma
from clusterica.metrics import amari_distance
from clusterica.ops.linalg import unit_rows
from clusterica.preprocessing import ContrastNormalizer, Whitener
from clusterica.rica import RICA, KernelRICA

NOTE = (
    "Idle filters: those whose codes have less than a tenth of the root mean square of the largest, after at "
    "most 200 steps; on grey patches of photographs, contrast-normalised, so that they do not vary in one "
    "direction. Free: lengths as in equation 2 of the paper; unit: all of length one, the norm ball that "
    "section 4.1 mentions; tight: unit, and reconstructions divided by the number of filters over that of "
    "directions in which the data varies, which is of this library. Sources "
    "are Laplace ones, mixed and whitened; RICA's Amari distance over that of FastICA (log cosh) on the same "
    "rows. partial_fit: the decrease of the objective after batches of 500 rows, over that of fit. Dead: "
    "basis vectors with k(w, x) < 0.01 for all rows, of kernel RICA on digits and on whitened colour "
    "patches, over multiples of the median gamma. Optimizers: the objective at the end, over that of the "
    "fixed point, at four times the median. Ranges are over starts."
)


class Found(NamedTuple):
    """One row of the table: its figure in every start."""

    question: str
    setting: str
    figures: list[float]

    @property
    def range(self) -> str:
        """The figures in words."""
        low, high = (f"{value:.4g}" for value in (min(self.figures), max(self.figures)))
        return low if low == high else f"{low} to {high}"


@experiment(
    "P4-bases",
    title="What becomes of a basis",
    paper="Xiao, Zhu & Zhao 2013, sections 2 to 4",
    claim="RICA learns over-complete bases, on white data those of ICA; a fixed point finds the kernel's.",
    draws=False,
    minutes=8.5,
)
def run(ctx: Context) -> Result:
    """Fit every setting from every start."""
    starts = range(ctx.choose(full=5, quick=1))
    parts = {
        "Lengths": _lengths,
        "Sources": _sources,
        "Batches": _batches,
        "Gamma": _gammas,
        "Optimizers": _optimizers,
    }
    found: list[Found] = []
    for part in ctx.track(list(parts), "Questions"):
        with few_steps():
            found += parts[part](ctx, starts)
    values = {f"{one.question}, {one.setting}": one.figures for one in found}
    return Result(
        columns=("Question", "Setting", "Found"),
        rows=[(one.question, one.setting, one.range) for one in found],
        values=values,
        settings={"n_starts": len(starts)},
        checks=checks(values),
        note=NOTE,
    )


def checks(values: Mapping[str, Sequence[float]]) -> list[Check]:
    """Return what the paper says or implies about bases, and whether it holds in every start.

    It leaves open to which scale of patches a gamma belongs, and how long to descend: no claim to check.
    """

    def figures(question: str, *words: str) -> list[float]:
        # All figures of a question whose setting has the words.
        names = [name for name in values if name.startswith(question)]
        return [v for name in names if all(word in name for word in words) for v in values[name]]

    ratio = max(figures("Amari distance"))
    idle = {n: max(figures("Idle filters", f", {n}")) for n in ("free", "unit", "tight")}
    ours = f"up to {idle['tight']:.0f} % with unit_norm='tight'"
    lbfgs = min(figures("Objective at the end", "lbfgs"))
    return [
        Check(
            "On white data RICA finds the sources of ICA, as lemma 4.1 implies, here without a kernel: its "
            "Amari distance is at most 1.05 of FastICA's",
            ratio <= 1.05,
            f"at most {ratio:.2f}",
        ),
        Check(
            "RICA by equation 2, lengths free, learns over-complete bases: none is idle",
            idle["free"] == 0,
            f"up to {idle['free']:.0f} % are; {ours}",
        ),
        Check(
            "RICA with filters of unit length learns over-complete bases: none is idle",
            idle["unit"] == 0,
            f"up to {idle['unit']:.0f} % are; {ours}",
        ),
        Check(
            "The fixed point of kernel RICA ends at most 1 % above L-BFGS",
            lbfgs >= 1 / 1.01,
            f"L-BFGS ends at {lbfgs:.4f} of it, or higher",
        ),
    ]


def _lengths(ctx: Context, starts: range) -> Iterator[Found]:
    """Share of idle filters, by the constraint of their lengths."""
    X = ContrastNormalizer().fit_transform(_patches(ctx.choose(full=20_000, quick=2000)))
    n = X.shape[1]
    norms: tuple[tuple[Any, str], ...] = (("tight", "tight"), (True, "unit"), (False, "free"))
    for times in ctx.choose(full=(1, 2, 4), quick=(2,)):
        for norm, words in norms:
            shares = []
            for seed in starts:
                rica = RICA(times * n, unit_norm=norm, max_iter=200, random_state=seed)
                sizes = np.sqrt((rica.fit_transform(X) ** 2).mean(axis=0))
                shares.append(100 * float((sizes < 0.1 * sizes.max()).mean()))
            yield Found("Idle filters (%)", f"{times * n} filters of {n} pixels, {words}", shares)


def _sources(ctx: Context, starts: range) -> Iterator[Found]:
    """Amari distance of RICA over that of FastICA."""
    for n in ctx.choose(full=(5, 10, 20), quick=(5,)):
        ratios = []
        for seed in starts:
            Z, mixing = _mixed(n, ctx.choose(full=20_000, quick=3000), seed)
            fast = FastICA(whiten=False, random_state=seed, tol=1e-6, max_iter=1000).fit(Z)
            rica = RICA(n, max_iter=1000, random_state=seed).fit(Z)
            distances = [amari_distance(model.components_, mixing) for model in (rica, fast)]
            ratios.append(distances[0] / distances[1])
        yield Found("Amari distance, RICA / FastICA", f"{n} sources", ratios)


def _batches(ctx: Context, starts: range) -> Iterator[Found]:
    """Decrease of the objective by partial_fit over that by fit, both seen on all rows."""
    for n in ctx.choose(full=(10, 50, 100), quick=(5,)):
        shares = []
        for seed in starts:
            X, _ = _mixed(n, 20_000, seed)
            whole = RICA(n, random_state=seed).fit(X)
            start, end = whole.objective_history_[[0, -1]]
            batched = RICA(n, random_state=seed)
            rng = np.random.default_rng(seed)
            for _ in range(ctx.choose(full=800, quick=20)):
                batched.partial_fit(X[rng.integers(len(X), size=500)])
            there = RICA(n, init=batched.components_, max_iter=1).fit(X).objective_history_[0]
            shares.append(100 * float((start - there) / (start - end)))
        yield Found("Decrease by partial_fit / by fit (%)", f"{n} sources", shares)


def _gammas(ctx: Context, starts: range) -> Iterator[Found]:
    """Number of dead basis vectors over gamma."""
    for name, (X, n) in _rows(ctx).items():
        for times in ctx.choose(full=(1, 2, 3, 4, 6), quick=(1, 4)):
            dead = [
                float(_kernel(X, n, times, seed, ctx.choose(full=200, quick=5)).n_dead_)
                for seed in starts
            ]
            yield Found("Dead basis vectors", f"{n} on {name}, γ = {times} x median", dead)


def _optimizers(ctx: Context, starts: range) -> Iterator[Found]:
    """Objective at the end, and number of steps, by optimizer."""
    for name, (X, n) in _rows(ctx).items():
        fitted = {
            optimizer: [
                _kernel(X, n, 4, seed, ctx.choose(full=1000, quick=5), optimizer) for seed in starts
            ]
            for optimizer in ("fixed-point", "lbfgs", "auto")
        }
        lowest = [model.objective_history_[-1] for model in fitted["fixed-point"]]
        for optimizer, models in fitted.items():
            ends = [
                float(m.objective_history_[-1] / e) for m, e in zip(models, lowest, strict=True)
            ]
            yield Found("Objective at the end", f"{n} on {name}, {optimizer}", ends)
            steps = [float(model.n_iter_) for model in models]
            yield Found("Steps", f"{n} on {name}, {optimizer}", steps)


def _kernel(
    X: np.ndarray, n: int, times: float, seed: int, max_iter: int, optimizer: str = "auto"
) -> KernelRICA:
    gamma = times * median_gamma(unit_rows(X), np.random.default_rng(0))
    model = KernelRICA(
        n,
        gamma=gamma,
        scale=1.0,  # the paper's objective
        sparsity=0.01,
        normalize=True,
        unit_codes=False,
        max_iter=max_iter,
        tol=1e-5,
        optimizer=optimizer,
        random_state=seed,
    )
    model.fit(X)
    return model


def _rows(ctx: Context) -> dict[str, tuple[np.ndarray, int]]:
    """Return rows by name, each with the number of basis vectors."""
    digits = load_digits().data / 16
    patches = ContrastNormalizer().fit_transform(_patches(3000, color=True))
    white = Whitener(eps=0.1).fit_transform(patches).astype(np.float64)
    n_digits, n_patches = ctx.choose(full=(40, 100), quick=(10, 10))
    return {"digits": (digits, n_digits), "patches": (white, n_patches)}


def _patches(n: int, *, color: bool = False) -> np.ndarray:
    return photo_patches(n, 6, color=color, random_state=0)


def _mixed(n: int, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return white mixtures of Laplace sources, and the matrix that mixed them."""
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n_rows, n))
    A = rng.standard_normal((n, n))
    whitener = Whitener(eps=0.0).fit(S @ A.T)
    return whitener.transform(S @ A.T), whitener.whitening_ @ A
