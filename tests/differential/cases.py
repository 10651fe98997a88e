"""Cases of the differential tests: what hypothesis draws, where rows live, and how far results may differ.

A case is a table of rows and one of the places where rows can live: NumPy in several layouts,
array-api-strict, torch, Dask, blocks, CSR. The estimator gets the rows there; the reference gets the same
numbers in float64.

Tolerances are bounds of rounding, not guesses. A sum of m products of numbers up to s, in whatever order, is
off by at most about m ε s (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
`rounding` returns four times that bound, with a few operations more, since a result takes some sums one after
another. Where a result divides or takes a root, the test divides the bound by the derivative. Where a choice
between two nearly equal values decides, such as the nearest of two centres, either choice is right: the tests
compare the values of the choice, or leave the case out (`clearly`).
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import clusterica
from clusterica.arrays import to_host

# Cases of each test: with all tests a few hundred in `make test`, and over 10,000 in `make test-all`.
CASES = {"quick": 8, "slow": 400}

PLACES = (
    "numpy",
    "fortran",
    "reversed",
    "strided",
    "read-only",
    "strict",
    "torch",
    "dask",
    "blocks",
)
DTYPES = (np.float32, np.float64)


def compared(*strategies, share=1.0, **named):
    """Make a test of a function of a case: a few cases in the quick tests, hundreds in the slow ones.

    `share` lowers the number for tests that take long.
    """

    def decorate(check):
        @pytest.mark.parametrize(
            "n_cases",
            [
                pytest.param(
                    max(1, round(share * n)), id=speed, marks=[pytest.mark.slow] * (speed == "slow")
                )
                for speed, n in CASES.items()
            ],
        )
        def test(n_cases):
            @settings(
                max_examples=n_cases,
                deadline=None,
                derandomize=False,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            )
            @given(*strategies, **named)
            @wraps(check)
            def run(*args, **kwargs):
                with quiet():
                    check(*args, **kwargs)

            run()

        test.__doc__, test.__name__ = check.__doc__, check.__name__
        return test

    return decorate


@contextmanager
def quiet():
    """Ignore advice and "did not converge"; blocks of few rows, on two threads."""
    with warnings.catch_warnings(), clusterica.config_context(memory="64KiB", threads=2):
        warnings.simplefilter("ignore", UserWarning)
        yield


@dataclass
class Table:
    """Rows in float64 as the estimator sees them, their dtype, and where they live."""

    X: np.ndarray
    dtype: Any
    place: str
    cut: int
    weights: np.ndarray | None = None

    def __repr__(self):
        described = (
            f"Table({self.X.shape}, {np.dtype(self.dtype).name}, {self.place!r}, cut={self.cut}"
        )
        return f"{described}, weights={self.weights}, X={self.X.tolist()})"

    @property
    def rows(self):
        """The rows where they live."""
        return put(self.X.astype(self.dtype), self.place, self.cut)

    @property
    def n(self):
        return self.X.shape[0]

    @property
    def d(self):
        return self.X.shape[1]

    @property
    def w(self):
        """Weights of the rows; ones if there are none."""
        return np.ones(self.n) if self.weights is None else self.weights

    @property
    def eps(self):
        """ε of the dtype that the estimator works in."""
        return float(np.finfo(working(self.dtype)).eps)

    def rounding(self, n_terms, size):
        """Bound of the rounding of sums of so many terms, each up to `size`."""
        return 4 * (n_terms + 8) * self.eps * np.asarray(size)


def working(dtype):
    """Return the dtype in which rows of this dtype are worked on."""
    dtype = np.dtype(dtype)
    is_small = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return np.dtype(np.float32 if is_small else np.float64)


def put(X, place, cut=3):
    """Return rows where a place says; `cut` is where blocks and chunks are cut."""
    if place == "fortran":
        return np.asfortranarray(X)
    if place == "reversed":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    if place == "strided":
        wide = np.full((2 * X.shape[0], 2 * X.shape[1]), 7, X.dtype)
        wide[::2, ::2] = X
        return wide[::2, ::2]
    if place == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if place == "strict":
        return array_api_strict.asarray(X.copy())
    if place == "torch":
        return pytest.importorskip("torch").asarray(X.copy())
    if place == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(cut, X.shape[1]))
    if place == "blocks":
        return [X[start : start + cut] for start in range(0, len(X), cut)]
    return sp.csr_matrix(X) if place == "csr" else X


def host(values):
    """Return a result as NumPy, in float64 if it is of numbers with a fraction."""
    values = np.asarray(to_host(values))
    return values.astype(np.float64) if values.dtype.kind == "f" else values


@st.composite
def tables(draw, *, min_rows=1, max_rows=40, max_columns=7, weights=False, sparse=False, far=True):
    """Draw a table: shape, dtype, scale, offset, repeated rows and columns, place, and weights if asked for.

    The numbers come from a seed that hypothesis draws; what it can shrink are the shape and the rest.
    """
    n, d = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    place = draw(st.sampled_from([*PLACES, "csr"] if sparse else PLACES))
    dtypes = [np.float32, np.float64]
    if place not in ("strict", "torch"):
        dtypes += [np.float16, np.int16, np.dtype(">f4"), np.dtype(">f8")]
    dtype = draw(st.sampled_from(dtypes)) if place != "csr" else draw(st.sampled_from(DTYPES))
    X = rng.laplace(size=(n, d)) if draw(st.booleans()) else rng.normal(size=(n, d))
    if place == "csr":
        X[rng.random(X.shape) < 0.5] = 0
    elif far:
        X = X + draw(st.sampled_from([0.0, 0.0, 1.0, 30.0]))
    X = X * draw(st.sampled_from([1.0, 1.0, 0.01, 100.0]))
    if draw(st.booleans()):  # repeated rows
        X = X[rng.integers(0, n, n)]
    if draw(st.integers(0, 5)) == 0:  # a repeated column, and a constant one
        X[:, -1] = X[:, 0]
        X[:, d // 2] = X[0, d // 2]
    X = X.astype(dtype).astype(np.float64)
    w = None
    if weights and draw(st.booleans()):
        w = rng.integers(0, 4, n).astype(float) if draw(st.booleans()) else rng.random(n)
        w[rng.integers(n)] = 1.0
        w = w.astype(np.float32).astype(np.float64)
    return Table(X, dtype, place, draw(st.integers(1, max(1, n))), w)


def clearly(margins, error):
    """Leave a case out unless all margins between a choice and the next best one exceed the error."""
    assume(bool((np.asarray(margins) > np.asarray(error)).all()))


def assert_close(found, expected, error, what=""):
    """Assert that two arrays differ by at most the error, entry by entry."""
    found, expected = host(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert np.isfinite(found).all(), f"{what}: not finite"
    apart = np.abs(found - expected)
    allowed = np.broadcast_to(np.asarray(error), apart.shape)
    if not (apart <= allowed).all():
        at = np.unravel_index(np.argmax(apart - allowed), apart.shape)
        raise AssertionError(
            f"{what}: {found[at]!r} at {tuple(map(int, at))}, expected {expected[at]!r}: "
            f"apart by {apart[at]:.3g}, allowed are {allowed[at]:.3g}"
        )
