"""The preconditioner is the inverse of what it says, in both of its forms, on every backend."""

from functools import partial

import numpy as np
import pytest

import clusterica
from clusterica.arrays import as_rows, to_host
from clusterica.linear import LinearSVC
from clusterica.linear._lbfgs import SampledGram
from clusterica.linear._problem import learn_standard


def sampled(X, put=np.asarray, fewest=1):
    rows = as_rows(put(X))
    standard = learn_standard(rows, np.ones(len(X)), centre=True, scale=True)
    return SampledGram(rows, standard, fewest=fewest)


def matrix(gram, X, C):
    """(1 + 2 C floor) I + 2 C Zᵀ Z / m over the sampled rows."""
    Z = ((X - X.mean(axis=0)) / X.std(axis=0))[gram._indices]
    return (1 + 2 * C * gram.floor) * np.eye(X.shape[1]) + 2 * C * Z.T @ Z / len(Z)


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize(
    ("n", "memory", "by_features"),
    [(200, "1MiB", True), (2000, "64KiB", False), (30, "1MiB", False)],
)
def test_inverse(put, rng, n, memory, by_features, C):
    X = rng.normal(size=(n, 70)) * np.geomspace(1, 0.1, 70) + 3
    with clusterica.config_context(memory=memory):
        gram = sampled(X, put)
        assert gram.by_features is by_features
        apply = gram.at(C, intercept=True)
        M = matrix(gram, X, C)
    G, place = rng.normal(size=(3, 71)), gram._rows.place.put
    expected = np.hstack([np.linalg.solve(M, G[:, :-1].T).T, G[:, -1:] / (2 * C)])
    np.testing.assert_allclose(to_host(apply(place(G))), expected, rtol=1e-7, atol=1e-10)
    without = gram.at(C, intercept=False)(place(G))
    np.testing.assert_array_equal(to_host(without)[:, -1], 0)


def test_all_rows_need_no_floor(rng):
    """Of the Gram matrix of all rows every eigenvalue is known."""
    assert sampled(rng.normal(size=(300, 20)), fewest=300).floor < 1e-12


def test_floor_is_the_noise_of_a_sample(rng):
    """Five strong directions and a floor of variance 0.01 in all the others, before standardising."""
    n, d = 4000, 200
    signal = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d))
    gram = sampled(signal + 0.1 * rng.normal(size=(n, d)))
    scale = 0.01 / 5
    assert gram.n_sampled == 300
    # 75 rows explain five directions well; what remains of 200 features, over those rows, halved.
    assert 0.3 * 200 * scale / 75 < gram.floor < 1.0 * 200 * scale / 75


def test_sample_within_memory(rng):
    X = rng.normal(size=(3000, 100))
    for memory in ("64KiB", "100KiB", "200KiB", "1MiB"):
        with clusterica.config_context(memory=memory):
            gram, budget = sampled(X), clusterica.get_config()["memory"] // 8
        m = gram.n_sampled
        assert (2 * 100**2 if gram.by_features else m * (100 + 2 * m)) <= budget


def test_an_iterable_is_not_walked_for_every_chunk(rng, monkeypatch):
    monkeypatch.setattr("clusterica.linear._base._FEW_ROWS", 0)
    monkeypatch.setattr("clusterica.linear._lbfgs.SampledGram", partial(SampledGram, chunk=10))

    class Blocks:
        walks = 0

        def __init__(self, X):
            self.X = X

        def __iter__(self):
            self.walks += 1
            return iter(np.split(self.X, 3))

    X = rng.normal(size=(300, 8))
    blocks = Blocks(X)
    model = LinearSVC(C=0.003).fit(blocks, (X[:, 0] > 0).astype(int))
    # Beside the passes: the check of the data, a look at it, its moments, and the sample.
    assert blocks.walks <= model.n_passes_ + 5


def test_passes_fall_with_memory(rng, monkeypatch):
    """More rows sampled, a better preconditioner."""
    monkeypatch.setattr("clusterica.linear._base._FEW_ROWS", 0)
    X = rng.normal(size=(2500, 120)) * np.geomspace(1, 1e-3, 120) @ rng.normal(size=(120, 120))
    y = (X[:, 0] > rng.normal(size=2500)).astype(int)
    passes = []
    for memory in ("64KiB", "4MiB"):
        with clusterica.config_context(memory=memory):
            passes.append(LinearSVC(C=0.04).fit(X, y).n_passes_)
    assert passes[0] > 1.5 * passes[1]
