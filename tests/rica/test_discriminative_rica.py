"""Supervised reconstruction ICA: a part of the basis for every class, its objective, labels and warnings."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import check_rows, to_host
from clusterica.contrasts import make_penalty
from clusterica.ops.discrimination import Discrimination
from clusterica.rica import RICA, DiscriminativeRICA
from clusterica.rica._labels import check_basis_labels
from clusterica.rica._reconstruction import Reconstruction, Supervision


@pytest.fixture(scope="module")
def labelled():
    """900 rows in three classes, each strong in two directions of its own."""
    rng = np.random.default_rng(5)
    y = rng.permutation(np.repeat([0, 1, 2], 300))
    scale = np.where(np.arange(6) // 2 == y[:, None], 2.0, 0.5)
    return rng.laplace(size=(900, 6)) * scale + 1, y


def small(n_per_class=2, **settings):
    return DiscriminativeRICA(n_per_class, **{"random_state": 0, "tol": 1e-5, **settings})


def objective_terms(rica, X, y):
    """The terms of the objective from every row, by their equations (2) and (10)."""
    W, S = rica.components_, rica.transform(X)
    t = max(1, len(W) / W.shape[1]) if rica.unit_norm == "tight" else 1
    reconstruction = ((S @ W / t - (X - rica.mean_)) ** 2).sum(axis=1).mean()
    penalty = rica.sparsity * np.log(np.cosh(S)).sum(axis=1).mean()
    d = 0.0
    for s, label in zip(S, y, strict=True):
        own = rica.component_classes_ == label
        d += s[~own].sum() ** 2
        if rica.constraint == "both":
            d += rica.eta_ * (s**2).sum() - s[own].sum() ** 2
    return reconstruction, penalty, rica.discrimination * d / len(X)


# --- Its objective ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:eta=:UserWarning")
@pytest.mark.parametrize("unit_norm", ["tight", True, False])
@pytest.mark.parametrize("constraint", ["both", "inhomogeneous"])
@pytest.mark.parametrize("eta", ["auto", 0.5])
def test_the_objective_falls_and_its_terms_add_up(labelled, constraint, unit_norm, eta):
    X, y = labelled
    settings = {"constraint": constraint, "unit_norm": unit_norm, "eta": eta}
    rica = small(3, discrimination=0.3, max_iter=500, **settings).fit(X, y)
    history = rica.objective_history_
    assert (np.diff(history) <= 1e-8 * np.abs(history[:-1])).all()
    assert list(rica.term_histories_) == ["reconstruction", "penalty", "discrimination"]
    np.testing.assert_allclose(sum(rica.term_histories_.values()), history)
    found = [terms[-1] for terms in rica.term_histories_.values()]
    np.testing.assert_allclose(found, objective_terms(rica, X, y), rtol=1e-8)
    assert rica.reconstruction_error_ == found[0]


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("unit_norm", [True, False])
def test_the_gradient_by_finite_differences(put, assert_gradient, homogeneous, unit_norm):
    rng = np.random.default_rng()
    X, y = rng.laplace(size=(60, 4)) + 1, rng.integers(3, size=60)
    rows = check_rows(RICA(), put(X), reset=True)
    arrays = (X.mean(axis=0), np.cov(X.T, bias=True), np.zeros((0, 4)))
    mean, C, null = map(rows.place.put, arrays)
    term = Discrimination(3, 1.5, homogeneous=homogeneous)
    parts = [X[y == c] - X.mean(axis=0) for c in range(3)]
    moments = rows.place.put(np.stack([part.T @ part for part in parts]))
    problem = Reconstruction(
        rows,
        mean,
        C,
        make_penalty("l1", None, n_codes=6),
        0.3,
        unit_norm,
        null,
        Supervision(term, 0.7, moments),
    )
    assert_gradient(problem, rng)


def test_codes_of_other_classes_cancel(labelled):
    """What the term is for: large sums of own codes, small sums of the others'."""
    X, y = labelled
    plain, taught = (small(discrimination=a, eta=2.5).fit(X, y) for a in (0.0, 0.5))

    def sums(rica):
        S = rica.transform(X)
        own = np.array([S[i, rica.component_classes_ == y[i]].sum() for i in range(len(X))])
        return (own**2).mean(), ((S.sum(axis=1) - own) ** 2).mean()

    assert sums(taught)[0] > 1.2 * sums(plain)[0]
    assert sums(taught)[1] < 0.8 * sums(plain)[1]


def test_without_the_term_it_is_plain(labelled):
    X, y = labelled
    ours = small(discrimination=0.0).fit(X, y)
    plain = RICA(6, random_state=0, tol=1e-5).fit(X)
    np.testing.assert_array_equal(ours.components_, plain.components_)


def test_the_inhomogeneous_constraint_has_no_eta(labelled):
    X, y = labelled
    models = [small(constraint="inhomogeneous", eta=eta).fit(X, y) for eta in ("auto", 0.0, 7.0)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
    both = small().fit(X, y)
    assert np.abs(both.components_ - models[0].components_).max() > 1e-3


def test_filters_are_ordered_by_class(labelled):
    X, y = labelled
    rica = small(3).fit(X, y)
    np.testing.assert_array_equal(rica.classes_, [0, 1, 2])
    np.testing.assert_array_equal(rica.component_classes_, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert rica.eta_ == 4
    np.testing.assert_allclose(np.linalg.norm(rica.components_, axis=1), 1)
    assert small(None).fit(X, y).components_.shape == (6, 6)
    assert small(None).fit(X[:, :5], y).components_.shape == (3, 5)
    assert small(None).fit(X[:, :2], y).components_.shape == (3, 2)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_of_every_kind(labelled):
    X, y = labelled
    expected = small().fit(X, y)
    torch = pytest.importorskip("torch")
    names = np.array(["ant", "bee", "cat"])
    kinds = {
        "list": y.tolist(),
        "column": y[:, None],
        "float": y.astype(float),
        "tensor": torch.asarray(y),
        "strings": names[y],
        "objects": names[y].astype(object),
    }
    for kind, labels in kinds.items():
        for n_per_class in (2, None):
            rica = small(n_per_class).fit(X, labels)
            np.testing.assert_array_equal(rica.components_, expected.components_, err_msg=kind)
        classes = names if kind in ("strings", "objects") else [0, 1, 2]
        np.testing.assert_array_equal(rica.component_classes_, np.repeat(classes, 2))


# --- Where the rows live ----------------------------------------------------------------------------


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 250] for i in range(0, len(self.X), 250))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


LAYOUTS = {
    "memory map": memory_map,
    "blocks": lambda X, path: Blocks(X),
    "torch": lambda X, path: pytest.importorskip("torch").asarray(X),
    "strict": lambda X, path: pytest.importorskip("array_api_strict").asarray(X),
    "dask": lambda X, path: pytest.importorskip("dask.array").from_array(X, chunks=(400, 3)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_filters_wherever_the_rows_live(labelled, layout, tmp_path):
    X, y = labelled
    expected = small(tol=1e-3).fit(X, y)
    rows = LAYOUTS[layout](X, tmp_path)
    found = small(tol=1e-3).fit(rows, y)
    np.testing.assert_allclose(to_host(found.components_), expected.components_, atol=1e-7)
    np.testing.assert_allclose(to_host(found.transform(rows)), expected.transform(X), atol=1e-6)


def test_the_same_filters_for_every_block_size(labelled):
    X, y = labelled
    expected = small(tol=1e-3).fit(X, y)
    with clusterica.config_context(memory="64KiB", threads=1):
        found = small(tol=1e-3).fit(X, y)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)


def test_float32_stays_float32(labelled):
    X, y = labelled
    X = X.astype(np.float32)
    narrow, wide = small(tol=1e-4).fit(X, y), small(tol=1e-4).fit(X.astype(np.float64), y)
    assert narrow.components_.dtype == np.float32
    np.testing.assert_allclose(
        narrow.objective_history_[-1], wide.objective_history_[-1], rtol=1e-4
    )


# --- scikit-learn -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [DiscriminativeRICA(max_iter=20), DiscriminativeRICA(constraint="inhomogeneous", max_iter=5)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_fit_keeps_parameters_and_transform_goes_row_by_row(labelled):
    X, y = labelled
    rica = small()
    before = set(vars(rica))
    rica.fit(X, y)
    added = set(vars(rica)) - before
    assert all(name.endswith("_") or name.startswith("_") for name in added)
    assert rica.get_params() == small().get_params()
    order = np.random.default_rng(0).permutation(len(X))
    codes = rica.transform(X)
    np.testing.assert_allclose(rica.transform(X[order]), codes[order], atol=1e-12)
    one_by_one = np.concatenate([rica.transform(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(one_by_one, codes[:20], atol=1e-12)
    with pytest.raises(ValueError, match="Reshape your data"):
        rica.transform(X[0])
    assert small(1).fit(X[:, :1], y).components_.shape == (3, 1)


def test_pickles_names_and_the_way_back():
    X, y = load_iris(return_X_y=True)
    rica = pickle.loads(pickle.dumps(small().fit(X, y)))
    assert rica.get_feature_names_out()[0] == "discriminativerica0"
    np.testing.assert_allclose(rica.inverse_transform(rica.transform(X)), X, atol=1e-10)
    np.testing.assert_array_equal(small().fit_transform(X, y), rica.transform(X))


def test_progress(labelled, bar):
    rica = small().set_callbacks(bar).fit(*labelled)
    assert bar.names == ["iteration"] * rica.n_iter_ + ["fit"]


# --- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({}, lambda y: None, "requires y to be passed, but the target y is None"),
        ({}, lambda y: 0 * y, "needs at least two classes in y, and y has only 0"),
        ({}, lambda y: y[:-1], "X has 900 rows and y has 899 labels; give one label"),
        (
            {},
            lambda y: np.stack([y, y], axis=1),
            r"y should be a 1d array, got an array of shape \(900, 2\)",
        ),
        ({}, lambda y: y + 0.5, "Unknown label type"),
        ({"n_per_class": 0}, lambda y: y, "n_components_per_class"),
        (
            {"n_per_class": 4},
            lambda y: np.where(np.arange(900) < 3, 9, np.minimum(y, 1)),
            "class .*9.* has 3 rows, fewer than its 4 basis vectors",
        ),
        ({"init": np.ones((3, 6))}, lambda y: y, r"init has shape \(3, 6\)"),
        ({"pooling": [0, 1]}, lambda y: y, "groups name 2 codes, and there are 6"),
        ({"eta": -1.0}, lambda y: y, "eta"),
        ({"eta": "k"}, lambda y: y, "eta"),
        ({"constraint": "own"}, lambda y: y, "constraint"),
        ({"discrimination": -0.1}, lambda y: y, "discrimination"),
    ],
)
def test_what_cannot_be(labelled, settings, change, message):
    X, y = labelled
    with pytest.raises(ValueError, match=message):
        small(**settings).fit(X, change(y))


def test_missing_values(labelled):
    X, y = labelled
    X = X.copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        small().fit(X, y)


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_warns_of_an_eta_that_is_too_small(labelled, eta):
    message = f"eta={eta:g} is not above the 2 basis vectors"
    with pytest.warns(UserWarning, match=message) as caught:
        small(eta=eta).fit(*labelled)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("eta", ["auto", 2.1])
def test_an_eta_above_k_is_not(labelled, eta):
    assert small(eta=eta).fit(*labelled).eta_ == (3 if eta == "auto" else eta)


def test_warns_if_max_iter_is_too_small(labelled):
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations"):
        small(max_iter=2).fit(*labelled)


def test_a_start_at_the_clusters_of_classes_points_to_them(rng):
    """Rows of three classes about centres of their own: a filter each, towards its centre."""
    centers = 5 * np.linalg.qr(rng.normal(size=(6, 6)))[0][:3]
    y = np.arange(600) % 3
    X = centers[y] + rng.normal(size=(600, 6))
    rica = DiscriminativeRICA(1, discrimination=0.0, init="k-means", max_iter=1, random_state=0)
    rows = check_rows(rica, X, reset=True)
    labels = check_basis_labels(rica, y, rows, 1)
    W = rica._start(rows, 3, X.mean(axis=0), labels)
    towards = centers - centers.mean(axis=0)
    cosines = (W * towards).sum(axis=1) / np.linalg.norm(towards, axis=1)
    assert np.abs(cosines).min() > 0.98


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_labels_that_are_missing(labelled, missing):
    X, _ = labelled
    y = np.array(["a", "b", missing], dtype=object)[np.arange(900) % 3]
    for n in (2, None):
        with pytest.raises(ValueError, match="y contains 300 missing labels; drop the rows"):
            small(n).fit(X, y)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            small(n).fit(X, np.array([0.0, 1.0, np.nan])[np.arange(900) % 3])
        with pytest.raises(ValueError, match="X has 900 rows and y has 0 labels"):
            small(n).fit(X, [])


def test_the_start_at_clusters_is_the_same_again(labelled):
    X, y = labelled
    rica = small(3, sparsity=0.0, discrimination=0.0, init="k-means", unit_norm=False, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        rica.fit(X, y)
    again = small(3, sparsity=0.0, discrimination=0.0, init="k-means", unit_norm=False, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        again.fit(X, y)
    np.testing.assert_array_equal(rica.components_, again.components_)


def test_a_term_that_makes_all_codes_zero_is_said_once_with_one_that_does_not(labelled):
    X, y = labelled
    settings = {"sparsity": 0.01, "unit_norm": False, "tol": 1e-3}
    with pytest.warns(UserWarning, match="with discrimination=5: all filters are dead") as caught:
        rica = small(discrimination=5.0, **settings).fit(X, y)
    assert len(caught) == 1
    assert rica.n_dead_ == 6
    such = float(str(caught[0].message).split()[-1])
    assert small(discrimination=such, **settings).fit(X, y).n_dead_ == 0
