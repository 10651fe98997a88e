"""The same classifiers wherever the rows live and however they are cut into blocks."""

import pickle
from functools import partial

import numpy as np
import pytest

import clusterica
from clusterica.arrays import Place, as_rows, device_of, to_host
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.linear._newton import NewtonSolver
from clusterica.linear._problem import learn_standard, standardised_rows


def strict(X, path, device="CPU_DEVICE"):
    xp = pytest.importorskip("array_api_strict")
    return xp.asarray(X, device=xp.Device(device))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


def dask(X, path):
    return pytest.importorskip("dask.array").from_array(X, chunks=(len(X) // 3 + 1, 7))


KINDS = {
    "fortran order": lambda X, path: np.asfortranarray(X),
    "memory map": memory_map,
    "lists": lambda X, path: X.tolist(),
    "blocks": lambda X, path: [X[:10], X[10:10], X[10:]],
    "torch": lambda X, path: pytest.importorskip("torch").asarray(X),
    "strict": strict,
    "strict-device1": partial(strict, device="device1"),
    "dask": dask,
}


@pytest.mark.parametrize(
    "classifier", [partial(LinearSVC, C=0.1), partial(RidgeClassifier, alpha=2.0)]
)
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(request, tmp_path, classifier, shape, kind):
    X, y = request.getfixturevalue(shape)
    expected = classifier(tol=1e-11).fit(X, y)
    X_there = KINDS[kind](X, tmp_path)
    model = classifier(tol=1e-11).fit(X_there, y)
    assert model.converged_
    np.testing.assert_allclose(to_host(model.coef_), expected.coef_, atol=1e-4)
    np.testing.assert_allclose(to_host(model.intercept_), expected.intercept_, atol=1e-3)
    scores = to_host(model.decision_function(X_there))
    np.testing.assert_allclose(scores, expected.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(to_host(model.predict(X_there)), expected.predict(X))
    assert model.score(X_there, y) == expected.score(X, y)


@pytest.mark.parametrize("most_on_host", [0, 60])
@pytest.mark.parametrize("kind", ["torch", "strict-device1", "dask"])
def test_products_of_rows_stay_where_they_are_if_they_are_many(
    monkeypatch, tmp_path, wide, kind, most_on_host
):
    X, y = wide
    expected = LinearSVC(random_state=0, tol=1e-11).fit(X, y)
    placed = KINDS[kind](X, tmp_path)
    solvers = []

    class Recorded(NewtonSolver):
        most_rows_on_host = most_on_host

        def __init__(self, problem):
            super().__init__(problem)
            solvers.append(self)

    monkeypatch.setattr("clusterica.linear._base.NewtonSolver", Recorded)
    model = LinearSVC(random_state=0, tol=1e-11).fit(placed, y)
    on_device = most_on_host == 0 and kind == "strict-device1"
    assert type(solvers[0]._equations.K) is (type(placed) if on_device else np.ndarray)
    np.testing.assert_allclose(model.C_, expected.C_)
    assert model.converged_
    np.testing.assert_allclose(to_host(model.coef_), expected.coef_, atol=1e-8)


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("kind", ["torch", "blocks", "dask", "strict-device1"])
def test_strength_chosen_wherever_rows_live(request, tmp_path, shape, kind):
    X, y = request.getfixturevalue(shape)
    expected = LinearSVC(random_state=0).fit(X, y)
    model = LinearSVC(random_state=0).fit(KINDS[kind](X, tmp_path), y)
    tried = np.isin(
        model.C_path_, expected.C_path_
    )  # a device tries several at once, so maybe more
    np.testing.assert_array_equal(model.C_path_[tried], expected.C_path_)
    np.testing.assert_allclose(
        model.validation_scores_[tried], expected.validation_scores_, atol=0.1
    )
    if kind != "strict-device1":
        assert tried.all()


def test_results_are_where_the_data_is(put, tall):
    X, y = tall
    placed = put(X.astype(np.float32))
    model = LinearSVC(C=0.025).fit(placed, put(y))
    results = [
        model.coef_,
        model.intercept_,
        model.decision_function(placed),
        model.predict(placed),
    ]
    for result in results:
        assert type(result) is type(placed)
        assert device_of(result) == device_of(placed)
    assert "float32" in str(model.coef_.dtype)
    assert model.score(placed, put(y)) > 0.5
    words = np.array(["a", "b", "c", "d"])[y]
    named = LinearSVC(C=0.025).fit(placed, words)
    assert isinstance(named.predict(placed), np.ndarray)
    assert named.score(placed, words) == model.score(placed, y)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_streamed_through_a_device(request, shape):
    pytest.importorskip("torch")
    X, y = request.getfixturevalue(shape)
    expected = LinearSVC(C=0.1, tol=1e-11).fit(X, y)
    with clusterica.config_context(device="cpu"):
        model = LinearSVC(C=0.1, tol=1e-11).fit(X, y)
    assert isinstance(model.coef_, np.ndarray)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("memory", ["64KiB", "1MiB"])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_blocks_and_threads(request, shape, memory, threads):
    X, y = request.getfixturevalue(shape)
    expected = LinearSVC(C=0.1, tol=1e-11).fit(X, y)
    with clusterica.config_context(memory=memory, threads=threads):
        model = LinearSVC(C=0.1, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


def test_small_integers_are_taken_as_they_are(rng):
    X = rng.integers(0, 255, size=(200, 12)).astype(np.uint8)
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = LinearSVC(C=0.5).fit(X, y)
    assert model.coef_.dtype == np.float32
    floats = LinearSVC(C=0.5).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(model.coef_, floats.coef_)


def test_data_on_another_device(put, tall):
    X, y = tall
    model = LinearSVC(C=0.01).fit(X, y)
    placed = put(X)
    if device_of(placed) in ("cpu", "CPU_DEVICE") or "cpu" in str(device_of(placed)).lower():
        pytest.skip("in host memory")
    with pytest.raises(ValueError, match="was fitted on device 'cpu' and X is on device"):
        model.predict(placed)


def test_pickle(tall):
    X, y = tall
    model = LinearSVC(C=0.01).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_sample_of_rows_that_were_sent_is_not_sent_again(monkeypatch, tall):
    xp = pytest.importorskip("array_api_strict")
    device = xp.empty(0, device=xp.Device("device1"))
    monkeypatch.setattr(Place, "of_work", lambda home: Place(device))
    X, _ = tall
    rows = as_rows(X)
    standard = learn_standard(rows, np.ones(len(X)), centre=True, scale=True)
    assert rows.on_device
    monkeypatch.setattr(type(rows), "take", None)
    indices = np.array([3, 5, 100, 399])
    found = standardised_rows(rows, standard, indices, rows.dtype)
    assert device_of(found) == device_of(device)
    expected = (X[indices] - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(to_host(found), expected, atol=1e-5)


def test_a_sample_of_rows_in_host_memory_does_not_load_all_of_them(monkeypatch, tall):
    pytest.importorskip("torch")
    X, _ = tall
    with clusterica.config_context(device="cpu"):
        rows = as_rows(X)
        standard = learn_standard(rows, np.ones(len(X)), centre=True, scale=True)
        monkeypatch.setattr(type(rows), "blocks", None)
        found = standardised_rows(rows, standard, np.array([3, 5]), rows.dtype)
    expected = (X[[3, 5]] - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(to_host(found), expected, atol=1e-5)
