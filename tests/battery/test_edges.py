"""Edges of numbers: every estimator gives a finite result of the right shape, or an error that says why."""

import numpy as np
import pytest


def rows(n=40, d=6):
    """Three clusters of heavy-tailed rows; every draw has them."""
    rng = np.random.default_rng()
    return rng.laplace(size=(n, d)) + 6 * np.arange(n)[:, None] % 3


def with_column(j, change):
    X = rows()
    X[:, j] = change(X)
    return X


INPUTS = {
    "plain": rows,
    "constant column": lambda: with_column(1, lambda X: 3.0),
    "column of zeros": lambda: with_column(1, lambda X: 0.0),
    "duplicated column": lambda: with_column(1, lambda X: X[:, 0]),
    "equal columns": lambda: np.repeat(rows(d=1), 6, axis=1),
    "one row": lambda: rows(n=1),
    "two rows": lambda: rows(n=2),
    "three rows": lambda: rows(n=3),
    "one column": lambda: rows(d=1),
    "more columns than rows": lambda: rows(n=8, d=20),
    "zeros": lambda: np.zeros((40, 6)),
    "all rows equal": lambda: np.repeat(rows(n=1), 40, axis=0),
    "two different rows": lambda: np.repeat(rows(n=2), 20, axis=0),
    "one row differs": lambda: np.concatenate([np.repeat(rows(n=1), 39, axis=0), rows(n=1)]),
    "skewed sizes": lambda: np.concatenate([rows(n=38) * 1e-3, rows(n=2) + 1e3]),
    "large column": lambda: with_column(1, lambda X: 1e6 * X[:, 1]),
    "offset": lambda: rows() + 1e6,
    "outlier": lambda: np.concatenate([rows(n=39), np.full((1, 6), 1e9)]),
    "1e19": lambda: rows() * 1e19,
    "1e30": lambda: rows() * 1e30,
    "1e-25": lambda: rows() * 1e-25,
    "1e-30": lambda: rows() * 1e-30,
    "denormal": lambda: rows() * 1e-42,
    "1e200": lambda: rows() * 1e200,
    "1e-200": lambda: rows() * 1e-200,
    "1e-310": lambda: rows() * 1e-310,
    "one tiny row": lambda: np.concatenate([rows(n=39), rows(n=1) * 1e-30]),
    "signs": lambda: np.sign(rows() - 6),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", INPUTS)
def test_finite_and_shaped_or_an_error_that_says_why(battery, checked, name, dtype):
    if dtype == np.float32 and name in ("1e200", "1e-200", "1e-310"):
        pytest.skip("not a number of float32, or zero")
    found = checked(battery, battery.shaped(INPUTS[name]().astype(dtype)))
    assert found is not None or name != "plain"


OTHERS = {
    "zeros": lambda X: 0 * X,
    "1e19": lambda X: X * 1e19,
    "1e30": lambda X: X * 1e30,
    "1e-30": lambda X: X * 1e-30,
    "denormal": lambda X: X * 1e-42,
    "1e200": lambda X: X * 1e200,
    "1e300": lambda X: X * 1e300,
    "1e-200": lambda X: X * 1e-200,
    "offset": lambda X: X + 1e6,
    "one row": lambda X: X[:1],
    "one huge row": lambda X: np.concatenate([X[1:], X[:1] * 1e30]),
    "all rows equal": lambda X: np.repeat(X[:1], len(X), axis=0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_methods_on_rows_unlike_those_of_fit(battery, checked_methods, dtype):
    """What a model says of other rows is finite, or an error that says why."""
    X = battery.shaped(rows().astype(dtype))
    model = battery.fit(X)
    with np.errstate(over="ignore"):
        others = {name: change(X).astype(dtype) for name, change in OTHERS.items()}
    for name, other in others.items():
        if np.isfinite(other).all() and (other.any() or name == "zeros"):
            checked_methods(battery, model, other)


def test_all_estimators_are_in_the_table(table, every_class):
    assert {type(make(6)) for make in table.values()} == every_class
