"""Images are sparse mixtures of the dictionary that comes with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clusterica.datasets import make_sparse_images

KINDS = ("pixels", "gratings", "gabors")


def flat(array):
    return array.reshape(len(array), -1).astype(np.float64)


def codes_of(images, dictionary):
    return np.linalg.solve(flat(dictionary).T, flat(images).T).T


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_are_independent_laplace_draws(kind):
    images, dictionary = make_sparse_images(3000, kind=kind, size=4, random_state=1)
    assert images.shape == (3000, 4, 4)
    assert dictionary.shape == (16, 4, 4)
    assert images.dtype == dictionary.dtype == np.float32
    S = codes_of(images, dictionary)
    assert stats.kstest(S.ravel(), stats.laplace(scale=np.sqrt(0.5)).cdf).pvalue > 0.01
    np.testing.assert_allclose(np.cov(S.T), np.eye(16), atol=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_density(kind):
    images, dictionary = make_sparse_images(3000, kind=kind, size=4, density=0.1, random_state=2)
    S = codes_of(images, dictionary)
    assert (np.abs(S) > 1e-3).mean() == pytest.approx(0.1, rel=0.05)
    assert S.var() == pytest.approx(1, rel=0.1)


def test_pixels_are_the_identity():
    images, dictionary = make_sparse_images(5, size=3)
    assert np.array_equal(flat(dictionary), np.eye(9))
    assert len(np.unique(images)) == 45


@given(size=st.integers(1, 9))
def test_gratings_are_an_orthonormal_basis_of_waves(size):
    D = make_sparse_images(1, kind="gratings", size=size).dictionary
    np.testing.assert_allclose(flat(D) @ flat(D).T, np.eye(size * size), atol=1e-5)
    # A wave has one frequency and its negative, and no energy elsewhere.
    energy = np.sort(np.abs(np.fft.fft2(D)).reshape(size * size, -1) ** 2, axis=1)
    np.testing.assert_allclose(
        energy[:, -2:].sum(axis=1) if size > 1 else energy[:, 0], size**2, rtol=1e-4
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31))
def test_gabors_are_a_basis_that_can_be_inverted_but_is_not_orthogonal(seed):
    D = flat(make_sparse_images(1, kind="gabors", size=5, random_state=seed).dictionary)
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1, rtol=1e-5)
    assert np.linalg.cond(D) < 300
    assert np.abs(D @ D.T - np.eye(25)).max() > 0.2


def test_gabors_are_localized_oriented_waves():
    D = make_sparse_images(1, kind="gabors", size=12, random_state=0).dictionary
    energy = np.sort(flat(D) ** 2, axis=1)[:, ::-1]
    assert np.median(energy[:, :36].sum(axis=1)) > 0.9  # in a quarter of the pixels
    assert np.linalg.cond(flat(D)) < 100


@pytest.mark.parametrize("n_atoms", [5, 16, 40])
def test_any_number_of_gabors(n_atoms):
    images, dictionary = make_sparse_images(7, kind="gabors", size=4, n_atoms=n_atoms)
    assert images.shape == (7, 4, 4)
    assert dictionary.shape == (n_atoms, 4, 4)
    assert np.linalg.matrix_rank(flat(dictionary)) == min(n_atoms, 16)
    assert len(np.unique(flat(dictionary), axis=0)) == n_atoms


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind):
    def draw(seed):
        return make_sparse_images(10, kind=kind, size=4, density=0.5, random_state=seed)

    first, again, other = draw(3), draw(3), draw(4)
    assert np.array_equal(first.images, again.images)
    assert np.array_equal(first.dictionary, again.dictionary)
    assert not np.array_equal(first.images, other.images)


def test_blocks_are_all_filled():
    block = 2**22 // 16  # images that are drawn at a time
    images, dictionary = make_sparse_images(block + 1001, kind="gratings", size=4, random_state=0)
    for part in (images[:1001], images[-1001:]):
        assert len(np.unique(part[:, 0, 0])) == 1001
        assert codes_of(part, dictionary).var() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_samples": 0}, "n_samples is 0"),
        ({"n_samples": 2.0}, "n_samples is 2.0"),
        ({"size": True}, "size is True"),
        ({"kind": "waves"}, "kind is 'waves'.*'gratings'"),
        ({"density": 0}, "density is 0"),
        ({"density": 1.5}, "density is 1.5"),
        ({"density": float("nan")}, "density is nan"),
        ({"kind": "gabors", "n_atoms": 0}, "n_atoms is 0"),
        ({"kind": "gratings", "n_atoms": 5, "size": 4}, "n_atoms is 5, .*16 atoms.*gabors"),
    ],
)
def test_errors(changed, message):
    with pytest.raises(ValueError, match=message):
        make_sparse_images(**{"n_samples": 3, **changed})
