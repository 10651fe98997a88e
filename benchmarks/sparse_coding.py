"""Sparse coding against scikit-learn's MiniBatchDictionaryLearning: time to the same objective.

Both learn from the same white patches in the same order, from the same atoms, each in batches of the size
that suits it. The objective is that of held-out patches with codes solved to a small gap,
``mean ½ |x - Dᵀ s|² + α |s|₁``, and the clocks stand still while it is computed. They take turns.
scikit-learn is stopped after some minutes, since a pass of it over all rows takes twenty on two cores; the
mark is what it reaches by then, and clusterica works until it is as good. The aim is a fifth of the time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.machine import Others, describe
from clusterica import config_context
from clusterica.datasets import photo_patches
from clusterica.dictionaries import SparseCoding
from clusterica.encoders import SparseEncoder
from clusterica.ops.linalg import unit_rows
from clusterica.preprocessing import ContrastNormalizer, Whitener

RESULTS = Path(__file__).parent / "results"
SHAPE = (400_000, 108, 1600)  # rows, features, atoms
QUICK = (5_000, 108, 100)
ALPHA = 1.0
THREADS = 2
# The default of scikit-learn. Processor time for a row of the first batch, with 1600 atoms: 5.4 ms by its
# coordinate descent, with batches of 256 or of 1024, and 9.8 ms by least angles.
THEIR_BATCH = 256
OUR_BATCH = 4096  # with fewer rows the atoms move more often, and codes of a row take longer


def patches(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return white patches to learn from, and 2,000 others, with so many components kept."""
    normalizer = ContrastNormalizer(eps=10.0)
    some = photo_patches(n_rows + 2000, 11, random_state=0)
    X = normalizer.fit_transform(some).astype(np.float32)
    X = Whitener("pca", eps=0.1, n_components=n_features).fit_transform(X)
    return X[:-2000], X[-2000:]


def cost(D: np.ndarray, fresh: np.ndarray) -> float:
    """Return the objective of held-out rows."""
    D = unit_rows(D.astype(np.float32))
    S = SparseEncoder(D, alpha=ALPHA, split_signs=False).fit_transform(fresh)
    error = 0.5 * ((fresh - S @ D) ** 2).sum(axis=1)
    return float((error + ALPHA * np.abs(S).sum(axis=1)).mean())


class Racer:
    """A learner with its clock, which runs while it learns, and what it has reached by when."""

    def __init__(self, model: Any, batch: int, X: np.ndarray, fresh: np.ndarray) -> None:
        self.model, self.batch, self.X, self.fresh = model, batch, X, fresh
        self.order = np.random.default_rng(0).permutation(len(X))
        self.seconds, self.n_rows = 0.0, 0
        self.path: list[tuple[float, float]] = []

    @property
    def best(self) -> float:
        """The lowest objective so far."""
        return min((objective for _, objective in self.path), default=np.inf)

    def work(self, seconds: float) -> None:
        """Learn from batches for so long, then look at the objective."""
        due = self.seconds + seconds
        while self.seconds < due:
            rows = self.X[
                self.order[np.arange(self.n_rows, self.n_rows + self.batch) % len(self.X)]
            ]
            began = time.perf_counter()
            self.model.partial_fit(rows)
            self.seconds += time.perf_counter() - began
            self.n_rows += self.batch
        self.path.append((self.seconds, cost(self.model.components_, self.fresh)))
        print(type(self.model).__name__, self.n_rows, *self.path[-1], flush=True)

    def reached(self, objective: float) -> float:
        """Return the seconds after which it was as good as that."""
        return next((seconds for seconds, found in self.path if found <= objective), np.inf)


def race(shape: tuple[int, int, int], limit: float, n_jobs: int | None) -> dict[str, Any]:
    """Return both paths, and the ratio of times to the mark."""
    n_rows, n_features, n_atoms = shape
    X, fresh = patches(n_rows, n_features)
    start = unit_rows(X[np.random.default_rng(1).choice(len(X), n_atoms, replace=False)])

    def peer() -> MiniBatchDictionaryLearning:
        return MiniBatchDictionaryLearning(
            n_atoms,
            alpha=ALPHA,
            batch_size=THEIR_BATCH,
            fit_algorithm="cd",
            dict_init=start,
            n_jobs=n_jobs,
        )

    model = SparseCoding(n_atoms, alpha=ALPHA, init=start)
    # Compile, and start worker processes, before the clock runs.
    clone(model).partial_fit(X[: 2 * n_atoms])
    peer().partial_fit(X[:THEIR_BATCH])
    theirs = Racer(peer(), THEIR_BATCH, X, fresh)
    ours = Racer(model, min(OUR_BATCH, n_rows // 4), X, fresh)
    every = limit / 20
    # In turns, so that what else the machine does meets both: clusterica works whenever it is behind.
    with threadpool_limits(THREADS), config_context(threads=THREADS):
        while theirs.seconds < limit:
            theirs.work(every)
            while ours.best > theirs.best and ours.seconds < limit:
                ours.work(every / 10)
    mark = theirs.best
    has_reached = ours.best <= mark
    return {
        "shape": shape,
        "alpha": ALPHA,
        "seconds_of_sklearn": limit,
        "sklearn_jobs": n_jobs,
        "start": cost(start, fresh),
        "mark": mark,
        "reached": has_reached,
        "sklearn": theirs.path,
        "sklearn_rows": theirs.n_rows,
        "clusterica": ours.path,
        "clusterica_rows": ours.n_rows,
        "speed_up": theirs.reached(mark) / ours.reached(mark) if has_reached else None,
        # That to every objective that scikit-learn had on its way.
        "speed_ups": [seconds / ours.reached(objective) for seconds, objective in theirs.path],
    }


def main() -> None:
    """Measure and write ``results/sparse-coding-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small shape, for a try")
    parser.add_argument("--seconds", type=float, default=200, help="that scikit-learn has")
    parser.add_argument("--jobs", type=int, default=2, help="processes of scikit-learn; 0 is none")
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    kind = "quick" if options.quick else "cpu"
    target = Path(options.output or RESULTS / f"sparse-coding-{kind}.json")
    machine, others = describe(), Others()
    result = race(QUICK if options.quick else SHAPE, options.seconds, options.jobs or None)
    # The processes of scikit-learn are not others, and their time is known once they have ended.
    get_reusable_executor().shutdown(wait=True)
    report = {"machine": machine, "threads": THREADS, "share_of_others": others.share(), **result}
    print(json.dumps(report, indent=1))
    found = f"{report['speed_up']:.1f} x as fast" if report["reached"] else "not reached"
    print(
        f"The objective of scikit-learn after {options.seconds:g} s, {report['mark']:.4f}: {found}; aim: 5 x"
    )
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
