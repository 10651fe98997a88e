"""What kernel RICA with and without labels share: the start, the fit around its problem, and the codes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    base_class,
    check_fitted_rows,
    map_reduce,
    namespace_of,
    to_host,
    transform_rows,
    warn_user,
)
from clusterica.cluster.starts import kmeans_start
from clusterica.contrasts import PENALTIES, Contrast, Derivatives, make_penalty
from clusterica.kernels import KERNEL_NAMES, Gaussian, basis_gamma, make_kernel, near_gamma
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.kernel_rica import Model, codes, reached
from clusterica.ops.kernels import DEAD, MUCH_DEAD, scale_rows
from clusterica.ops.penalty import Elementwise
from clusterica.optim import Progress, fit_progress
from clusterica.rica._kernel_descent import OPTIMIZERS, KernelMinimum, KernelProblem, descend
from clusterica.rica._labels import BasisLabels


@base_class
class BaseKernelRICA(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    """What kernel RICA with and without labels share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"basis", "median"})],
        "scale": [Interval(Real, 0, None, closed="neither"), StrOptions({"best"})],
        "sparsity": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "penalty": [StrOptions(set(PENALTIES)), callable],
        "pooling": "no_validation",
        "normalize": ["boolean"],
        "unit_codes": ["boolean"],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    _in_older_files: ClassVar[dict[str, Any]] = {"scale": 1.0, "unit_codes": False}
    kernel: Any
    gamma: float | str
    scale: float | str
    sparsity: float | str
    penalty: Any
    pooling: Any
    normalize: bool
    unit_codes: bool
    optimizer: str
    max_iter: int
    tol: float
    random_state: Any

    def _fit(
        self,
        X: Any,
        y: Any,
        rows: Rows,
        K: int,
        labels: BasisLabels | None = None,
        discrimination: tuple[Discrimination, float | str] | None = None,
    ) -> None:
        """Learn K basis vectors; with labels, given the discrimination term and its strength."""
        penalty = make_penalty(self.penalty, self.pooling, n_codes=K)
        rng = as_generator(self.random_state)
        # One task for the K-means of every class, and one for the descent.
        progress = fit_progress(self, 2 if labels is None else len(labels.classes) + 1, X=X, y=y)
        sample, start = self._start(rows, K, labels, rng, progress)
        term, strength = (None, 0.0) if discrimination is None else discrimination
        # Unit weights, until the terms of the start are known.
        model = Model(
            self.kernel_,
            penalty,
            1.0,
            term,
            1.0,
            normalize=self.normalize,
            factor=None if isinstance(self.scale, str) else float(self.scale),
        )
        classes = None if labels is None else labels.codes
        model = _weighted(KernelProblem(rows, model, classes), start, self.sparsity, strength)
        self.sparsity_ = model.sparsity
        if term is not None:
            self.discrimination_ = model.strength
        # How far a basis vector may move in one step: the spread of the rows, or the width of the kernel.
        # In float64: the squares of many float32 rows lose digits in a plain mean.
        spread = float(np.sqrt(((sample - sample.mean(axis=0)) ** 2).sum(axis=1).mean(dtype=float)))
        width = (2 * self.gamma_) ** -0.5 if self.gamma_ else np.inf
        task = progress.subtask("basis", self.max_iter)
        found = descend(
            KernelProblem(rows, model, classes),
            start,
            optimizer=self.optimizer,
            reach=min(spread or 1.0, width),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda W: {
                "components_": rows.learned(W),
                "kernel_": self.kernel_,
                "_n_features_out": W.shape[0],
            },
        )
        task.end()
        self._set_fitted(rows, found, sample)
        self._warn_if_dead(rows, start, sample)
        progress.end()

    def _start(
        self,
        rows: Rows,
        K: int,
        labels: BasisLabels | None,
        rng: np.random.Generator,
        progress: Progress,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Set the kernel; return a sample of the rows as the kernel sees them, and K-means centres of it."""
        # 100 rows for each basis vector, 20,000 at least: a start need not be exact.
        most = max(20_000, 100 * K)
        if labels is None:
            picked = [rng.choice(rows.n_rows, size=min(most, rows.n_rows), replace=False)]
        else:
            # Equal numbers of rows of every class: a rare class has as many basis vectors as the others.
            per_class = -(-most // len(labels.classes))
            picked = [
                rng.choice(own, size=min(len(own), per_class), replace=False)
                for own in labels.rows_by_class()
            ]
        # Rows are read in order, once; the classes are found again by their places in that order.
        chosen = np.sort(np.concatenate(picked))
        sample = scale_rows(rows.take(chosen), normalize=self.normalize)
        # A single basis vector has no other to be unlike, and gets the median.
        is_rbf = isinstance(self.kernel, str) and self.kernel == "rbf"
        by_basis = K > 1 and self.gamma == "basis" and is_rbf
        if not by_basis:
            gamma = "median" if self.gamma == "basis" else self.gamma
            # Before the start, so that a kernel that is wrong costs no time.
            self.kernel_ = make_kernel(self.kernel, gamma=gamma, rows=sample, rng=rng)
        # The basis is ordered by class: the discrimination term counts on it.
        start = [
            kmeans_start(
                rows,
                # Without labels in the order of the rows; with them in that of the draw.
                sample if labels is None else sample[np.searchsorted(chosen, part)],
                K // len(picked),
                rng=rng,
                progress=progress,
            )
            for part in picked
        ]
        if by_basis:
            self.kernel_ = Gaussian(basis_gamma(np.concatenate(start), rows=sample))
        # Only the Gaussian kernel has a width to advise on.
        self.gamma_ = self.kernel_.gamma if isinstance(self.kernel_, Gaussian) else None
        return sample, np.concatenate(start)

    def transform(self, X: Any) -> Array:
        """Return the codes ``k(w, x)`` of the rows, by default at unit length.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        S : array of shape (n_samples, n_components)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "components_")
        # New rows may have another dtype than those of fit: the work is in theirs.
        W = np.asarray(to_host(self.components_), dtype=rows.dtype)
        fn = partial(
            codes,
            kernel=self.kernel_,
            normalize=self.normalize,
            unit=self.unit_codes and len(W) > 1,
        )
        return transform_rows(fn, rows, W)

    def _set_fitted(self, rows: Rows, found: KernelMinimum, sample: np.ndarray) -> None:
        """Set the fitted attributes."""
        self.n_iter_ = found.result.n_iter
        self.objective_history_ = np.array(found.result.history)
        self.term_histories_ = found.terms
        self.scale_ = found.factor
        self.reconstruction_error_ = float(found.terms["reconstruction"][-1])
        found.result.warn_if_unfinished(self)
        # The descent is in float64, the rows and what is kept need not be.
        W = found.result.params.astype(rows.dtype)
        self.components_, self._n_features_out = rows.home.put(W), len(W)
        self.n_uphill_ = found.n_uphill
        # About 1000 rows are enough for a median.
        some = sample[:: max(1, len(sample) // 1000)]
        self.median_similarity_ = float(np.median(self.kernel_(some, W)))

    def _warn_if_dead(self, rows: Rows, start: np.ndarray, sample: np.ndarray) -> None:
        """Count basis vectors that no row is like, and say what may help if they are many."""
        reach = partial(reached, kernel=self.kernel_, normalize=self.normalize, least=DEAD)

        def n_dead(W: np.ndarray) -> int:
            return int((to_host(map_reduce(reach, rows, W.astype(rows.dtype))[0]) == 0).sum())

        most, gamma = MUCH_DEAD * len(start), self.gamma_
        self.n_dead_ = n_dead(to_host(self.components_))
        if self.n_dead_ <= most:
            return
        # A start far from most rows means a kernel too narrow; else basis vectors repel each other.
        near = near_gamma(sample, start) if gamma else np.inf
        if n_dead(start) > most or (gamma and gamma > near):
            wider = "use a wider kernel, or normalize=True"
            if gamma:
                such = near if near < gamma else gamma / 4
                wider = f"lower gamma (it is {gamma:.3g}; try {such:.3g})"
            remedy = f"{wider}: the kernel is too narrow for the rows, which are far from the start"
        else:
            narrower = "use a narrower kernel, such as 'rbf' with a large gamma"
            if gamma:
                narrower = f"raise gamma (it is {gamma:.3g}; try {4 * gamma:.3g})"
            remedy = (
                f"those that are like the same rows push each other away; {narrower}, fewer n_components, or "
                "a smaller max_iter"
            )
            if not isinstance(self.scale, str):
                remedy = f"use scale='best' (it is {self.scale:g}), or else: {remedy}"
            error = max(0.0, float(self.term_histories_["reconstruction"][0]))
            for term, name in (("penalty", "sparsity"), ("discrimination", "discrimination")):
                size = float(self.term_histories_.get(term, [0.0])[0])
                # Ten times what "auto" gives, or more.
                if size > 0.1 * error:
                    weight = getattr(self, f"{name}_")
                    lower = (
                        f"lower {name} (it is {weight:g}; try {weight * 0.01 * error / size:.2g})"
                    )
                    remedy = f"{lower}, which drives them away from rows; {remedy}"
        warn_user(
            f"{self.n_dead_} of {len(start)} basis vectors are dead: no row has k(w, x) of {DEAD}; {remedy}"
        )


def _weighted(
    problem: KernelProblem, start: np.ndarray, sparsity: float | str, strength: float | str
) -> Model:
    """Return the model with its weights; "auto" is a share of the reconstruction error at the start."""
    terms: dict[str, float] = {}
    if "auto" in (sparsity, strength):
        measured = replace(problem, model=_without_signs(problem.model, len(start)))
        terms = measured.evaluate(problem.rows.place.put(start)).extra.terms

    def weight(given: float | str, name: str) -> float:
        if not isinstance(given, str):
            return float(given)
        # Penalty and discrimination are sums over all codes, while the error is at most k(x, x): where two
        # vectors have a k of 0.3 on average, a λ of 0.01 killed 44 % of the basis on iris and 13 % on breast
        # cancer, a λ of 0.001 16 % of 200 vectors on Fashion-MNIST, and 0 none. So each is a hundredth of the
        # error at the start. Where all codes are zero so is the term, and no weight counts.
        size = terms[name]
        return 0.01 * max(0.0, terms["reconstruction"]) / size if size else 0.0

    return problem.model._replace(
        sparsity=weight(sparsity, "penalty"), strength=weight(strength, "discrimination")
    )


def _without_signs(model: Model, n_components: int) -> Model:
    """Return the model with terms that are never negative: others may cancel out, which is not a size."""
    penalty, term = model.penalty, model.discrimination
    if isinstance(penalty, Elementwise):
        penalty = replace(penalty, contrast=partial(_absolute, penalty.contrast))
    if term is not None:
        # With more than k, the vectors of a class, no d(s) is negative: k |s|² bounds the square of a sum.
        term = replace(term, eta=max(term.eta, n_components // term.n_classes + 1.0))
    return model._replace(penalty=penalty, discrimination=term)


def _absolute(contrast: Contrast, y: Array) -> Derivatives:
    value, first, second = contrast(y)
    return Derivatives(namespace_of(value).abs(value), first, second)
