"""Descriptors by gradients: kinds of input, shapes of patches, and in place of patches in ImageFeatures."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import FeatureUnion
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import device_of, to_host
from clusterica.cluster import KMeans
from clusterica.dictionaries import SparseCoding
from clusterica.encoders import LLCEncoder, SparseEncoder
from clusterica.images import ImageFeatures, sample_patches
from clusterica.linear import LinearSVC
from clusterica.preprocessing import GradientDescriptor


class Lines(GradientDescriptor):
    """Takes rows of any width as lines of pixels, so that the checks apply."""

    def _shape(self, n_features):
        return (1, n_features, 1)


@parametrize_with_checks([Lines(n_cells=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def patches():
    return np.random.default_rng(0).random((300, 64))


def test_array_libraries(put, patches):
    expected = GradientDescriptor().fit_transform(patches)
    X = put(patches.astype(np.float32))
    found = GradientDescriptor().fit(X).transform(X)
    assert type(found) is type(X)
    assert found.dtype == X.dtype
    assert device_of(found) == device_of(X)
    np.testing.assert_allclose(to_host(found), expected, atol=1e-4)


def test_blocks_and_dask(patches):
    da = pytest.importorskip("dask.array")
    expected = GradientDescriptor().fit_transform(patches)
    with config_context(memory="64KiB"):
        np.testing.assert_allclose(GradientDescriptor().fit_transform(patches), expected)
    lazy = GradientDescriptor().fit_transform(da.from_array(patches, chunks=(90, 64)))
    np.testing.assert_allclose(lazy.compute(), expected)


@pytest.mark.parametrize(
    ("n", "given", "expected"),
    [
        (64, None, (8, 8, 1)),
        (75, None, (5, 5, 3)),
        (64, (4, 8, 2), (4, 8, 2)),
        (1, None, (1, 1, 1)),
    ],
)
def test_shapes(n, given, expected):
    model = GradientDescriptor(given).fit(np.ones((2, n)))
    assert model.patch_shape_ == expected
    assert model.transform(np.ones((2, n))).shape == (2, 128)
    assert len(model.get_feature_names_out()) == 128


def test_bad_shapes():
    with pytest.raises(
        ValueError, match=r"rows of 50 numbers are not square patches.*give patch_shape"
    ):
        GradientDescriptor().fit(np.ones((2, 50)))
    with pytest.raises(ValueError, match=r"patch_shape=\(4, 4\) must be .* of 64 numbers"):
        GradientDescriptor((4, 4)).fit(np.ones((2, 64)))
    with pytest.raises(ValueError, match=r"patch_shape=\(4, 4, 3\) must be"):
        GradientDescriptor((4, 4, 3)).fit(np.ones((2, 64)))


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("learner", "encoder"),
    [
        (SparseCoding(alpha=0.15, max_iter=3), SparseEncoder(alpha=0.15)),
        (KMeans(max_iter=5), LLCEncoder(n_neighbors=3)),
    ],
    ids=["ScSPM", "LLC"],
)
def test_spatial_pyramids_of_codes(library, learner, encoder):
    """Maxima of the codes of all descriptors, over 1, 2 x 2 and 4 x 4 cells, by hand."""
    images = np.random.default_rng(0).integers(0, 256, size=(6, 20, 20), dtype=np.uint8)
    given = images if library == "numpy" else pytest.importorskip("torch").asarray(images)
    model = ImageFeatures(
        16,
        patch_size=8,
        stride=3,
        n_patches=300,
        normalizer=GradientDescriptor(),
        whitener=None,
        learner=learner,
        encoder=encoder,
        pooling="max",
        grid=[(1, 1), (2, 2), (4, 4)],
        random_state=0,
    ).fit(given)
    assert model.filters_.shape == (16, 128)
    with pytest.raises(AttributeError, match="no filters in pixels"):
        model.pixel_filters_
    n_codes = encoder.n_features_out(16)
    features = to_host(model.transform(given))
    assert features.shape == (6, 21 * n_codes)
    every = sample_patches(images[:1], 10**6, patch_size=8, random_state=0)
    everywhere = to_host(model.stages(every)["codes"]).max(axis=0)
    assert (features[0, :n_codes] <= everywhere + 1e-4).all()
    cells = features[:, n_codes:].reshape(6, 20, n_codes)
    for pyramid in (cells[:, :4], cells[:, 4:]):
        np.testing.assert_allclose(pyramid.max(axis=1), features[:, :n_codes], atol=1e-5)


def test_several_scales_stand_side_by_side():
    images = np.random.default_rng(0).integers(0, 256, size=(6, 20, 20), dtype=np.uint8)
    settings = {"n_patches": 200, "whitener": None, "pooling": "max", "random_state": 0}
    parts = {
        side: ImageFeatures(
            8,
            patch_size=side,
            stride=4,
            normalizer=GradientDescriptor(),
            learner=KMeans(max_iter=5),
            encoder="llc",
            **settings,
        )
        for side in (8, 12)
    }
    union = FeatureUnion([(str(side), part) for side, part in parts.items()])
    features = union.fit_transform(images)
    expected = [part.fit_transform(images) for part in parts.values()]
    np.testing.assert_allclose(features, np.hstack(expected))


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_codes_of_descriptors_beat_visual_words():
    """Digits, three times as large, from 150 labels: LLC and ScSPM against one-hot codes."""
    digits = load_digits()
    images = np.kron(digits.images, np.ones((3, 3))).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:150], order[150:750]
    systems = {
        "words": (KMeans(max_iter=20), "hard"),
        "LLC": (KMeans(max_iter=20), "llc"),
        "ScSPM": (SparseCoding(alpha=0.15, batch_size=1000, max_iter=5), SparseEncoder(alpha=0.15)),
    }
    scores = {}
    for name, (learner, encoder) in systems.items():
        features = ImageFeatures(
            64,
            patch_size=8,
            stride=2,
            n_patches=5000,
            normalizer=GradientDescriptor(floor=1.0),
            whitener=None,
            learner=learner,
            encoder=encoder,
            pooling="max",
            grid=[(1, 1), (2, 2)],
            random_state=0,
        ).fit(images[train])
        seen, fresh = (features.transform(images[part]) for part in (train, test))
        classifier = LinearSVC(C=10.0, standardize=False).fit(seen, digits.target[train])
        scores[name] = classifier.score(fresh, digits.target[test])
    assert scores["LLC"] > scores["words"]
    assert scores["ScSPM"] > scores["words"]
    assert min(scores["LLC"], scores["ScSPM"]) > 0.92, scores
