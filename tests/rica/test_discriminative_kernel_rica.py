"""Kernel RICA with labels: parts of the basis for the classes, the terms, inputs and faults."""

import pickle
import re

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import to_host
from clusterica.kernels import Gaussian
from clusterica.rica import DiscriminativeKernelRICA

quiet = pytest.mark.filterwarnings("ignore:.*max_iter", "ignore:.*are dead")


@pytest.fixture(scope="module")
def digits():
    """Rows of three classes, and their labels."""
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:240], y[:240]


def learner(n_per_class=2, **settings):
    """The paper's objective, on rows of unit length."""
    paper = {"gamma": 4.0, "scale": 1.0, "discrimination": 0.1, "normalize": True}
    paper |= {"sparsity": 0.01, "unit_codes": False, "tol": 1e-5}
    settings = {**paper, "random_state": 0, "max_iter": 100, **settings}
    return DiscriminativeKernelRICA(n_per_class, **settings)


@quiet
@pytest.mark.parametrize("optimizer", ["auto", "fixed-point", "lbfgs"])
@pytest.mark.parametrize("constraint", ["both", "inhomogeneous"])
def test_the_objective_is_that_of_equation_11_and_never_rises(digits, optimizer, constraint):
    X, y = digits
    rica = learner(optimizer=optimizer, constraint=constraint, discrimination=0.05).fit(X, y)
    history = rica.objective_history_
    assert len(history) == rica.n_iter_ + 1
    assert (np.diff(history) <= 1e-8 * np.abs(history[:-1])).all()
    assert set(rica.term_histories_) == {"reconstruction", "penalty", "discrimination"}
    np.testing.assert_allclose(sum(rica.term_histories_.values()), history)
    S = rica.transform(X)
    own = rica.component_classes_[None] == y[:, None]
    d = (S * ~own).sum(axis=1) ** 2
    if constraint == "both":
        d += 3 * (S**2).sum(axis=1) - (S * own).sum(axis=1) ** 2
    assert rica.term_histories_["discrimination"][-1] == pytest.approx(0.05 * d.mean())
    G = Gaussian(4.0)(rica.components_, rica.components_)
    error = 1 - 2 * (S**2).sum(axis=1) + np.einsum("ip,pq,iq->i", S, G, S)
    assert rica.reconstruction_error_ == pytest.approx(error.mean())


def test_every_part_stands_for_its_class(digits):
    X, y = digits
    names = np.array(["zero", "one", "two"])[y]
    rica = learner().fit(X, names)
    assert list(rica.classes_) == ["one", "two", "zero"]
    assert list(rica.component_classes_) == ["one", "one", "two", "two", "zero", "zero"]
    assert rica.eta_ == 3.0
    parts = rica.transform(X).reshape(len(X), 3, 2).sum(axis=2)
    assert (rica.classes_[parts.argmax(axis=1)] == names).mean() > 0.9


def test_the_start_of_a_part_is_among_the_rows_of_its_class(digits):
    X, y = digits
    with pytest.warns(UserWarning, match="did not converge in 1 iterations"):
        rica = learner(1, discrimination=0.0, max_iter=1, gamma=1.0, tol=0.0).fit(X, y)
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    means = np.array([U[y == c].mean(axis=0) for c in range(3)])
    gaps = ((rica.components_[:, None] - means[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(gaps.argmin(axis=1), [0, 1, 2])


def test_the_term_lowers_the_codes_of_other_classes(digits):
    X, y = digits
    shares = []
    for strength in (0.0, 0.3):
        rica = learner(discrimination=strength, eta="auto").fit(X, y)
        S = rica.transform(X)
        others = rica.component_classes_[None] != y[:, None]
        shares.append((S * others).sum() / S.sum())
    assert shares[1] < 0.9 * shares[0]


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_dead_vectors_ask_for_less_discrimination_first(digits):
    X, y = digits
    message = r"6 of 6 .* are dead.*; lower discrimination \(it is 1; try ([\d.]+)\), .*raise gamma"
    with pytest.warns(UserWarning, match=message) as caught:
        learner(discrimination=1.0).fit(X, y)
    # With the remedy, and without a warning, which would be an error here.
    less = float(re.search(r"try ([\d.]+)", str(caught[-1].message))[1])
    assert learner(discrimination=less).fit(X, y).n_dead_ == 0
    assert learner(discrimination=0.1).fit(X, y).n_dead_ == 0
    with pytest.warns(UserWarning, match=r"are dead.*; lower gamma") as caught:
        learner(gamma=1000.0).fit(X, y)
    assert not any("discrimination" in str(w.message) for w in caught)


def test_none_is_as_many_components_as_fit_the_features(digits):
    X, y = digits
    rica = learner(None, max_iter=100).fit(X[:, 18:28], y)
    assert rica.components_.shape == (9, 10)


@quiet
@pytest.mark.parametrize("constraint", ["both", "inhomogeneous"])
def test_the_objective_with_the_best_scale(digits, constraint):
    X, y = digits
    rica = learner(scale="best", constraint=constraint, discrimination=0.05).fit(X, y)
    history = rica.objective_history_
    assert (np.diff(history) <= 1e-8 * np.abs(history[:-1])).all()
    S = rica.transform(X)
    G = Gaussian(4.0)(rica.components_, rica.components_)
    assert rica.scale_ == pytest.approx((S**2).sum() / np.einsum("ip,pq,iq->", S, G, S), rel=1e-6)
    assert rica.reconstruction_error_ == pytest.approx(1 - rica.scale_ * (S**2).sum() / len(S))


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_with_the_defaults_few_die():
    """Without a warning of dead vectors, which would be an error here."""
    X, y = load_digits(return_X_y=True)
    rica = DiscriminativeKernelRICA(5, random_state=np.random.default_rng().integers(100))
    assert rica.fit(X[:600], y[:600]).n_dead_ <= 2


@quiet
def test_tensors_and_blocks(put, digits):
    X, y = digits
    right = learner(max_iter=6).fit(X, y)
    rica = learner(max_iter=6).fit(put(X), put(y))
    np.testing.assert_allclose(to_host(rica.components_), right.components_, atol=1e-7)
    assert type(rica.transform(put(X))) is type(put(X))
    with clusterica.config_context(memory="64KiB", threads=2):
        cut = learner(max_iter=6).fit([X[:100], X[100:]], y)
    np.testing.assert_allclose(cut.components_, right.components_, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "relabel", "message"),
    [
        ({}, lambda y: None, "requires y to be passed"),
        ({"n_per_class": 0}, lambda y: y, "n_components_per_class"),
        (
            {"n_per_class": 2},
            lambda y: np.where(np.arange(240) == 5, 9, y % 2),
            "9.* has 1 rows, fewer than its 2",
        ),
        ({}, lambda y: 0 * y, "y has only 0;"),
        ({}, lambda y: 0.0 * y, r"y has only 0\.0;"),
        ({}, lambda y: np.full(len(y), "a"), "y has only 'a';"),
        ({}, lambda y: y[:-1], "one label for every row"),
        ({}, lambda y: y + 0.5, "Unknown label type"),
        ({"eta": -1}, lambda y: y, "'eta' parameter"),
        ({"gamma": 0.0}, lambda y: y, "'gamma' parameter"),
        ({"constraint": "none"}, lambda y: y, "'constraint' parameter"),
    ],
)
def test_bad_input(digits, settings, relabel, message):
    X, y = digits
    with pytest.raises(ValueError, match=message):
        learner(**settings).fit(X, relabel(y))


def test_warns_of_a_term_that_is_not_convex(digits):
    with pytest.warns(UserWarning, match="eta=2 is not above the 2 basis vectors"):
        learner(eta=2.0, discrimination=0.01).fit(*digits)


def test_models_survive_files(digits, tmp_path):
    X, y = digits
    rica = learner(1).fit(X, y)
    loaded = clusterica.load(clusterica.save(rica, tmp_path / "model.safetensors"))
    for copy in (loaded, pickle.loads(pickle.dumps(rica))):
        np.testing.assert_array_equal(copy.transform(X), rica.transform(X))
        np.testing.assert_array_equal(copy.component_classes_, rica.component_classes_)


def test_a_plain_callback_gets_models_and_stops_the_fit(digits, watcher):
    X, y = digits
    seen = watcher(stop_after=3)
    rica = learner().set_callbacks(seen).fit(X, y)
    assert rica.n_iter_ == 3
    assert seen.names == ["iteration"] * 3 + ["basis", "fit"]
    np.testing.assert_allclose(seen.models[-1].transform(X), rica.transform(X), atol=1e-10)


@quiet
@parametrize_with_checks(
    [
        DiscriminativeKernelRICA(max_iter=5, normalize=False),
        DiscriminativeKernelRICA(max_iter=5, gamma=3.0, constraint="inhomogeneous"),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_fit_keeps_parameters_and_transform_goes_row_by_row(digits):
    X, y = digits
    rica = learner()
    before = set(vars(rica))
    rica.fit(X, y)
    added = set(vars(rica)) - before
    assert all(name.endswith("_") or name.startswith("_") for name in added)
    assert rica.get_params() == learner().get_params()
    order = np.random.default_rng(0).permutation(len(X))
    codes = rica.transform(X)
    np.testing.assert_allclose(rica.transform(X[order]), codes[order], atol=1e-12)
    one_by_one = np.concatenate([rica.transform(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(one_by_one, codes[:20], atol=1e-12)
    with pytest.raises(ValueError, match="Reshape your data"):
        rica.transform(X[0])
    with pytest.raises(ValueError, match="n_features=1"):
        learner(1).fit(X[:, 20:21], y)
    assert learner(1, normalize=False).fit(X[:, 20:21], y).components_.shape == (3, 1)


@quiet
def test_auto_discrimination_is_a_hundredth_of_the_error_at_the_start(digits):
    rica = learner(discrimination="auto", sparsity="auto").fit(*digits)
    start = {name: values[0] for name, values in rica.term_histories_.items()}
    assert start["discrimination"] == pytest.approx(start["reconstruction"] / 100)
    assert start["penalty"] == pytest.approx(start["reconstruction"] / 100)
    assert learner(discrimination=0.02).fit(*digits).discrimination_ == 0.02


@quiet
@pytest.mark.filterwarnings("ignore:eta=")
def test_auto_discrimination_does_not_grow_where_the_parts_of_the_term_cancel_out(digits):
    auto = {"discrimination": "auto", "sparsity": "auto", "max_iter": 1, "tol": 1.0}
    safe = learner(3, **auto).fit(*digits).discrimination_
    for eta in (0.0, *np.random.default_rng().uniform(0, 3, size=3), 3.0):
        assert learner(3, eta=eta, **auto).fit(*digits).discrimination_ == pytest.approx(safe)
