"""Channels as rows get a hint, and every linear ICA has the columns of its mixing matrix."""

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import NotFittedError

import clusterica
from clusterica.arrays import device_of, to_host
from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA, KurtosisPursuit
from clusterica.rica import RICA, DiscriminativeRICA

LEARNERS = [ClusterICA(2), RICA(max_iter=1), KurtosisPursuit(n_init=2, max_iter=1)]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("shape", [(64, 100_000), (4, 9000)])
def test_channels_as_rows_that_do_not_fit_the_memory(learner, shape):
    X = np.broadcast_to(np.zeros((1, 1)), shape)  # takes no memory
    hint = rf"X has {shape[0]} rows and {shape[1]} columns.*did you mean X\.T\?.* GiB"
    with pytest.raises(ValueError, match=hint):
        learner.fit(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_channels_as_rows_that_fit(learner, rng):
    with pytest.warns(UserWarning, match=r"X has 12 rows and 90 columns.*did you mean X\.T\?"):
        learner.fit(rng.laplace(size=(12, 90)))


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_no_hint_for_a_small_table(learner, rng, recwarn):
    learner.fit(rng.laplace(size=(300, 5)))
    assert not [w for w in recwarn if "X.T" in str(w.message)]


def test_the_budget_decides(rng):
    with (
        clusterica.config_context(memory="64KiB"),
        pytest.raises(ValueError, match=r"did you mean X\.T"),
    ):
        ClusterICA().fit(rng.laplace(size=(12, 100)))


def test_names_of_fast_ica():
    X, *_ = make_sparse_sources(2000, 3, random_state=0)
    model, other = ClusterICA(random_state=0).fit(X), FastICA(random_state=0).fit(X)
    for name in ("components_", "mixing_", "mean_", "whitening_"):
        assert getattr(model, name).shape == getattr(other, name).shape
    with pytest.raises(NotFittedError):
        ClusterICA().whitening_
    with pytest.raises(NotFittedError):
        RICA().mixing_


@pytest.mark.filterwarnings("ignore:RICA did not converge")
@pytest.mark.parametrize("n_components", [3, 5, 12])
def test_mixing_of_rica_is_the_way_back(n_components, put):
    rng = np.random.default_rng()
    X = put(rng.laplace(size=(400, 5)) @ (np.eye(5) + 0.2 * rng.normal(size=(5, 5))))
    model = RICA(n_components, max_iter=5, tol=1.0, random_state=0).fit(X)
    assert model.mixing_.shape == (5, n_components)
    assert type(model.mixing_) is type(X)
    assert device_of(model.mixing_) == device_of(X)
    S, mixing, mean = (to_host(a) for a in (model.transform(X), model.mixing_, model.mean_))
    back = to_host(model.inverse_transform(model.transform(X)))
    np.testing.assert_allclose(S @ mixing.T + mean, back, atol=1e-6)
    expected = np.linalg.pinv(to_host(model.components_))
    np.testing.assert_allclose(mixing, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:DiscriminativeRICA did not converge")
def test_mixing_of_rica_with_labels(rng):
    X, y = rng.laplace(size=(200, 4)), np.arange(200) % 2
    model = DiscriminativeRICA(2, max_iter=3, tol=1.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.mixing_, np.linalg.pinv(model.components_), atol=1e-10)


def test_mixing_of_rica_is_that_of_the_data():
    X, _, A = make_sparse_sources(20_000, 4, mixing="orthogonal", random_state=0)
    found = RICA(sparsity=0.5, random_state=0).fit(X).mixing_
    cosines = np.abs((found / np.linalg.norm(found, axis=0)).T @ (A / np.linalg.norm(A, axis=0)))
    assert (cosines.max(axis=0) > 0.99).all()


def test_mixing_of_a_pursuit_is_a_column_of_the_mixing_matrix():
    """Of mixed sources, by one direction alone; the pseudo-inverse of it points elsewhere."""
    rng = np.random.default_rng(0)
    S = rng.uniform(-1, 1, size=(50_000, 3)) ** [1, 3, 5]  # the first has the least kurtosis
    S /= S.std(axis=0)
    A = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 2.0], [1.0, 0.0, 1.0]])
    model = KurtosisPursuit(random_state=0).fit(S @ A.T)
    found = model.mixing_[:, 0]
    np.testing.assert_allclose(found * np.sign(found[0]), A[:, 0], atol=0.05)
    P = model.transform(S @ A.T)
    expected = np.cov(np.column_stack([S @ A.T, P]).T)[:3, 3]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
