"""On heavy-tailed data the centres point along the tails: small versions of the papers' experiments."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans
from clusterica.preprocessing import Whitener


def laplace(n_samples, n_features, seed):
    """Laplace sources of unit variance, s_lap of P0."""
    rng = np.random.default_rng(seed)
    return rng.laplace(scale=0.5**0.5, size=(n_samples, n_features))


def distance_to_axes(C):
    """P0, section 6.1: match the centres with ±e_j and take the largest error of a coordinate."""
    C = C / np.linalg.norm(C, axis=1, keepdims=True)
    d = C.shape[1]
    axes = np.concatenate([np.eye(d), -np.eye(d)])
    errors = np.abs(C[:, None, :] - axes[None, :, :]).max(axis=2)
    return errors[linear_sum_assignment(errors)].max()


def angle_to_axes(C):
    """The largest angle between a centre and the nearest axis, in degrees."""
    return np.degrees(np.arccos(np.minimum(np.abs(C).max(axis=1), 1))).max()


@pytest.mark.parametrize("make", [lambda **p: GainShapeKMeans(2, **p), CosineKMeans])
@pytest.mark.parametrize("seed", range(5))
def test_two_heavy_tails(make, seed):
    """P1, figure 2: the centroids point in the directions of the tails."""
    C = make(random_state=seed).fit(laplace(20_000, 2, seed)).cluster_centers_
    assert angle_to_axes(C) < 2
    assert abs(C[0] @ C[1]) < 0.05  # each has its own axis


@pytest.mark.parametrize("seed", range(3))
def test_two_heavy_tails_mixed(seed):
    """P0, theorem 1: whitening and clustering find the filters, the rows of the inverse of A."""
    A = np.array([[2.0, 1.0], [0.5, 1.5]])
    S = laplace(30_000, 2, seed)
    whitener = Whitener("pca", eps=0.0).fit(S @ A.T)
    model = CosineKMeans(random_state=seed).fit(whitener.transform(S @ A.T))
    filters = model.cluster_centers_[:2] @ whitener.whitening_
    mixed = filters @ A  # one source each, of either sign
    assert np.sort(np.abs(mixed), axis=1)[:, 0].max() < 0.05
    np.testing.assert_allclose(np.abs(mixed).max(axis=1), 1, atol=0.05)


def test_plain_k_means_finds_the_axes_too():
    """P0, figure 1: k = 4 centres in two dimensions lie on the axes."""
    model = KMeans(4, init="orthogonal", random_state=0).fit(laplace(30_000, 2, 0))
    assert distance_to_axes(model.cluster_centers_) < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_orthogonal_start_reaches_the_axes(seed):
    """P0, table 1 has 0.0749 for d = 20 and 10,000 rows."""
    model = CosineKMeans(random_state=seed).fit(laplace(10_000, 20, seed))
    assert distance_to_axes(model.cluster_centers_) < 0.15


@pytest.mark.parametrize("seed", range(3))
def test_orthogonal_start_reaches_fifty_axes(seed):
    """P0, table 1 has 0.1722 for d = 50 and 100,000 rows, from a random start."""
    model = CosineKMeans(random_state=seed).fit(laplace(100_000, 50, seed))
    assert distance_to_axes(model.cluster_centers_) < 0.08


def test_orthogonal_centers_have_smaller_errors():
    """The constraint is true of the answer, so that on average it removes error."""

    def error(orthogonal, seed):
        X = Whitener(eps=0.0).fit_transform(laplace(5000, 10, seed))
        model = CosineKMeans(orthogonal=orthogonal, random_state=seed).fit(X)
        return distance_to_axes(model.cluster_centers_)

    free, orthogonal = (np.mean([error(o, seed) for seed in range(5)]) for o in (False, True))
    assert orthogonal < free


def test_more_rows_bring_the_centers_nearer_to_the_axes():
    """P0, table 1: distances tend to zero as the sample grows."""
    errors = [
        np.mean(
            [
                distance_to_axes(
                    CosineKMeans(random_state=s).fit(laplace(n, 5, s)).cluster_centers_
                )
                for s in range(3)
            ]
        )
        for n in (500, 5000, 50_000)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03
