"""What learns the filters, what encodes with them, and the score of the result."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, FastICA, MiniBatchDictionaryLearning
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clusterica
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans
from clusterica.dictionaries import (
    KSVD,
    KernelSparseCoding,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)
from clusterica.ica import KernelICA
from clusterica.images import ImageFeatures, sample_patches
from clusterica.images._bank import default_eps
from clusterica.preprocessing import ContrastNormalizer, KernelWhitener, Whitener
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

LEARNERS = [
    "gain-shape-k-means",
    "patches",
    GainShapeKMeans(max_iter=3),
    KMeans(max_iter=3),
    CosineKMeans(max_iter=3),
    SklearnKMeans(n_init=1, max_iter=5),
    MiniBatchKMeans(n_init=1),
    FastICA(tol=0.5, max_iter=50),
    RICA(max_iter=10),
    RICA(pooling="2d", max_iter=10),
    MiniBatchDictionaryLearning(max_iter=2, fit_algorithm="cd"),
]


def small(**settings):
    settings = {"n_filters": 8, "patch_size": 4, "n_patches": 400, "random_state": 0, **settings}
    return ImageFeatures(**settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_learners(images, slow_features, learner):
    model = small(learner=learner).fit(images)
    assert model.filters_.shape == (8, 48)
    assert model.filters_.dtype == np.float32
    found = model.transform(images[:3])
    np.testing.assert_allclose(found, slow_features(model, images[:3]), rtol=2e-3, atol=1e-2)
    again = small(learner=learner).fit(images)
    np.testing.assert_array_equal(again.filters_, model.filters_)
    if not isinstance(learner, str):
        assert not hasattr(learner, "components_")  # the one given is left as it is
        assert not hasattr(learner, "cluster_centers_")
        learned = getattr(model.learner_, "cluster_centers_", None)
        learned = model.learner_.components_ if learned is None else learned
        np.testing.assert_allclose(model.filters_, learned, rtol=1e-6)


def test_filters_are_learned_from_normalised_and_whitened_patches(images):
    """The steps by hand, on the patches of the same seed."""
    model = small(learner=GainShapeKMeans(random_state=3)).fit(images)
    patches = sample_patches(images, 400, patch_size=4, random_state=0)
    normalized = ContrastNormalizer().fit_transform(patches)
    white = Whitener(eps=0.1).fit_transform(normalized)
    D = GainShapeKMeans(8, random_state=3).fit(white).cluster_centers_
    np.testing.assert_allclose(model.filters_, D, atol=1e-5)
    assert model.whitener_.eps_ == 0.1
    found = model.stages(patches)
    assert list(found) == ["raw", "normalized", "whitened", "codes"]
    np.testing.assert_array_equal(found["raw"], patches)
    np.testing.assert_allclose(found["normalized"], normalized, atol=1e-5)
    np.testing.assert_allclose(found["whitened"], white, atol=1e-3)
    responses = np.hstack([white @ D.T, -white @ D.T])
    np.testing.assert_allclose(found["codes"], np.maximum(0, responses - 0.25), atol=1e-3)


def test_random_patches_are_unit_rows_of_white_patches(images):
    model = small(learner="patches").fit(images)
    white = model.stages(sample_patches(images, 400, patch_size=4, random_state=0))["whitened"]
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    nearest = np.abs(model.filters_[:, None, :] - white).max(axis=2).min(axis=1)
    np.testing.assert_allclose(nearest, 0, atol=1e-4)
    assert len(np.unique(model.filters_, axis=0)) == 8
    assert model.learner_ is None


def test_random_patches_leave_flat_ones_out(rng):
    X = np.full((30, 6, 6), 9, np.uint8)
    X[:3] = rng.integers(0, 255, size=(3, 6, 6))
    model = ImageFeatures(20, patch_size=4, learner="patches", random_state=0, whitener=None).fit(X)
    np.testing.assert_allclose(np.linalg.norm(model.filters_, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("patch_size", "eps"), [(1, 0.1), (6, 0.1), (8, 0.1), (12, 0.1**1.5), (16, 0.01), (40, 0.01)]
)
def test_the_whitening_constant_of_a_patch_size(patch_size, eps):
    np.testing.assert_allclose(default_eps(patch_size), eps)


def test_filters_in_pixels(images):
    model = small().fit(images)
    patches = sample_patches(images, 50, patch_size=4, random_state=1)
    stages = model.stages(patches)
    responses = stages["whitened"] @ model.filters_.T
    found = (stages["normalized"] - model.whitener_.mean_) @ model.pixel_filters_.T
    np.testing.assert_allclose(found, responses, atol=1e-3)
    np.testing.assert_allclose(
        model.pixel_patterns_ @ model.whitener_.whitening_.T, model.filters_, atol=1e-3
    )
    unwhitened = small(whitener=None).fit(images)
    np.testing.assert_array_equal(unwhitened.pixel_filters_, unwhitened.filters_)
    regions = small(regions=(1, 2)).fit(images)
    assert [f.shape for f in regions.pixel_patterns_] == [(8, 48), (8, 48)]


@pytest.mark.parametrize(
    "settings",
    [
        {"whitener": PCA(20, whiten=True, random_state=0)},
        {"whitener": Whitener("pca", n_components=20)},
        {"normalizer": StandardScaler()},
        {"normalizer": ContrastNormalizer(eps=1.0), "whitener": Whitener(eps=0.5)},
        {"normalizer": None, "whitener": None},
    ],
    ids=str,
)
def test_other_steps(images, settings):
    """Transformers of scikit-learn in place of ours, or none: features are sums of codes of patches."""
    model = small(grid=(1, 1), **settings).fit(images)
    found = model.transform(images[:2])
    every = sample_patches(images[:1], 10**6, patch_size=4)
    np.testing.assert_allclose(
        model.stages(every)["codes"].sum(axis=0), found[0], rtol=1e-3, atol=1e-2
    )
    for name in ("normalizer", "whitener"):
        given, fitted = settings.get(name), getattr(model, f"{name}_")
        if given is not None:
            assert fitted.get_params() == given.get_params()
            assert not hasattr(given, "n_features_in_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.filterwarnings("ignore:.*basis vectors are dead")
@pytest.mark.parametrize(
    "learner",
    [
        KernelRICA(max_iter=3),
        KernelICA(n_landmarks=50, max_iter=5),
        make_pipeline(KernelWhitener(5, n_landmarks=50), RICA(unit_norm=False, max_iter=5)),
        make_pipeline(StandardScaler(), RICA(max_iter=5)),
        KernelSparseCoding(gamma=1.0, max_iter=3),
        SparseCoding(alpha=0.5, max_iter=3),
        KSVD(n_nonzero=1, max_iter=3),
        SparseAutoencoder(target=0.1, max_iter=3),
        SparseRBM(target=0.1, max_iter=2),
        KMeans(max_iter=3),
        "gain-shape-k-means",
        SklearnKMeans(n_init=1),
        FastICA(tol=0.5),
        RICA(tol=1e-2),
    ],
    ids=str,
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_transform_of_the_learner(images, learner, library):
    X = images if library == "numpy" else pytest.importorskip("torch").asarray(images)
    model = small(learner=learner, encoder="transform", grid=(1, 1), pooling="mean").fit(X)
    every = sample_patches(images[:1], 10**6, patch_size=4)
    white = np.asarray(model.stages(every)["whitened"])
    expected = np.asarray(model.learner_.transform(white)).mean(axis=0)
    found = model.transform(X)
    assert type(found) is type(X)
    np.testing.assert_allclose(np.asarray(found)[0], expected, rtol=1e-3, atol=1e-3)


def test_both_signs_of_the_transform(images):
    settings = dict(learner=FastICA(tol=0.5), grid=(1, 1), pooling="mean")
    signed = small(encoder="transform", **settings).fit(images)
    both = small(encoder="transform-both-signs", **settings).fit(images)
    positive, negative = np.split(both.transform(images), 2, axis=1)
    assert both.n_features_out_ == 2 * signed.n_features_out_
    assert min(positive.min(), negative.min()) > 0
    np.testing.assert_allclose(positive - negative, signed.transform(images), atol=1e-5)


class NoFilters(TransformerMixin, BaseEstimator):
    """A learner that can only transform, as kernel methods can."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.tanh(X[:, :3].astype(np.float64))


def test_a_learner_without_filters(images):
    model = small(learner=NoFilters(), encoder="transform").fit(images)
    assert model.transform(images).shape == (12, 12)
    assert not hasattr(model, "filters_")
    with pytest.raises(ValueError, match="NoFilters has no filters to reconstruct"):
        model.score(images)
    with pytest.raises(AttributeError, match="no filters in pixels"):
        model.pixel_filters_
    with pytest.raises(TypeError, match=r"NoFilters has neither cluster_centers_ nor.*'transform'"):
        small(learner=NoFilters()).fit(images)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.parametrize("n_filters", [11, 12])
def test_components_of_kernel_space_are_no_filters(images, n_filters):
    """Also where there are as many of them as a patch has numbers, 12."""
    learner = KernelICA(n_landmarks=50, max_iter=2)
    settings = {"n_filters": n_filters, "patch_size": 2, "learner": learner}
    model = small(encoder="transform", **settings).fit(images)
    assert model.learner_.components_.shape == (n_filters, n_filters)
    assert model.transform(images).shape == (12, 4 * n_filters)
    assert not hasattr(model, "filters_")
    with pytest.raises(ValueError, match="has no filters to reconstruct"):
        model.score(images)
    with pytest.raises(TypeError, match=r"has neither .* of shape \(n_filters, 12\).*'transform'"):
        small(**settings).fit(images)


class OnlyComponents(BaseEstimator):
    """A learner of one's own."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, X, y=None):
        self.components_ = X[: self.n_components]
        return self


def test_a_learner_that_only_has_components(images):
    model = small(learner=OnlyComponents()).fit(images)
    np.testing.assert_array_equal(model.filters_, model.learner_.components_)


def test_labels_reach_the_patches(images):
    class Remembers(LinearDiscriminantAnalysis):
        """Needs labels, as its tags say."""

        def fit(self, X, y):
            self.seen_ = np.asarray(y)
            return super().fit(X, y)

    y = np.arange(12) % 3
    model = small(n_filters=2, learner=Remembers(), encoder="transform").fit(images, y)
    assert len(model.learner_.seen_) == 400
    # Every image gives its share of patches.
    np.testing.assert_allclose(np.bincount(model.learner_.seen_), 400 / 3, atol=3)
    with pytest.raises(ValueError, match=r"Remembers learns from labels; call fit\(X, y\)"):
        small(learner=Remembers(), encoder="transform").fit(images)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.filterwarnings("ignore:.*basis vectors are dead")
@pytest.mark.parametrize("encoder", ["transform", "soft-threshold"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    "learner",
    [
        DiscriminativeRICA(max_iter=5, discrimination=1.0),
        DiscriminativeKernelRICA(max_iter=2),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_labels_reach_the_filters_of_classes(images, encoder, library, learner):
    X = images if library == "numpy" else pytest.importorskip("torch").asarray(images)
    y = np.array(["a", "b", "c"])[np.arange(12) % 3]
    name = type(learner).__name__
    model = small(n_filters=9, learner=learner, encoder=encoder).fit(X, y)
    assert model.learner_.component_classes_.tolist() == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert model.filters_.shape == (9, 48)
    found = model.transform(X)
    assert found.shape == (12, 4 * (9 if encoder == "transform" else 18))
    other = small(n_filters=9, learner=learner, encoder=encoder).fit(X, np.roll(y, 1))
    assert np.abs(np.asarray(other.filters_) - np.asarray(model.filters_)).max() > 1e-3
    with pytest.raises(ValueError, match=rf"{name} learns from labels; call fit\(X, y\)"):
        small(n_filters=9, learner=learner, encoder=encoder).fit(X)
    with pytest.raises(ValueError, match=r"can.t find 8; ask for a multiple of 3"):
        small(n_filters=8, learner=learner, encoder=encoder).fit(X, y)


def white_kernel(learner):
    """Kernel RICA in white kernel space, as in section 4.1 of Xiao, Zhu & Zhao."""
    return make_pipeline(KernelWhitener(6, kernel="inverse-distance", n_landmarks=40), learner)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # stopped early
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_pipelines_learn(images, library, tmp_path):
    """The last step gets the number of filters and the labels, every step a seed."""
    X = images if library == "numpy" else pytest.importorskip("torch").asarray(images)
    y = np.array(["a", "b", "c"])[np.arange(12) % 3]
    settings = {"n_filters": 9, "encoder": "transform-both-signs"}
    plain = white_kernel(RICA(unit_norm=False, pooling="2d", max_iter=4))
    labeled = white_kernel(DiscriminativeRICA(unit_norm=False, pooling="2d", max_iter=4))
    for learner in (plain, labeled):
        model = small(learner=learner, **settings).fit(X, y)
        whitener, rica = model.learner_
        assert (whitener.n_components_, rica.components_.shape) == (6, (9, 6))
        assert type(rica.components_) is type(X)
        assert whitener.random_state is not None is not rica.random_state
        assert learner[-1].random_state is None
        found = np.asarray(model.transform(X))
        assert found.shape == (12, 4 * 18)
        again = small(learner=learner, **settings).fit(X, y).transform(X)
        np.testing.assert_array_equal(np.asarray(again), found)
        loaded = clusterica.load(clusterica.save(model, tmp_path / "model.safetensors"))
        np.testing.assert_allclose(np.asarray(loaded.transform(X)), found, atol=1e-5)
    assert rica.component_classes_.tolist() == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    with pytest.raises(ValueError, match=r"DiscriminativeRICA learns from labels; call fit"):
        small(learner=labeled, **settings).fit(X)
    with pytest.raises(TypeError, match="'transform'"):
        small(learner=plain).fit(X)


# --- Score -------------------------------------------------------------------------------------------


def test_score_is_the_error_of_the_best_single_filter(images):
    model = small(n_patches=10**6).fit(images)
    every = sample_patches(images, 10**6, patch_size=4, random_state=0)
    white = model.stages(every)["whitened"].astype(np.float64)
    D = model.filters_ / np.linalg.norm(model.filters_, axis=1, keepdims=True)
    left = min_over_filters = (white**2).sum(axis=1) - ((white @ D.T) ** 2).max(axis=1)
    assert min_over_filters.min() > 0
    np.testing.assert_allclose(model.score(images), -left.sum() / (white**2).sum(), rtol=1e-4)


def test_the_name_of_the_default_in_older_model_files(images):
    filters = [
        small(learner=name).fit(images).filters_
        for name in ("gain-shape-k-means", "spherical-k-means")
    ]
    np.testing.assert_array_equal(*filters)


def test_score_prefers_learned_filters_and_more_of_them(images):
    def score(n, learner):
        model = ImageFeatures(n, patch_size=4, n_patches=600, learner=learner, random_state=0)
        return model.fit(images[:8]).score(images[8:])

    assert score(16, "gain-shape-k-means") > score(4, "gain-shape-k-means") > -1
    assert 0 > score(16, "gain-shape-k-means") > score(16, "patches")
    assert score(16, SklearnKMeans(n_init=1)) < 0


def test_score_of_regions(images):
    assert -1 < small(regions=(2, 1), grid=(1, 1)).fit(images).score(images) < 0


# --- Warnings ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_near_empty_clusters(rng):
    X = np.zeros((40, 12, 12), np.uint8)
    X[:, 3] = rng.integers(0, 255, size=(40, 12))
    model = ImageFeatures(
        60, patch_size=2, n_patches=300, learner=KMeans(init="rows", empty="keep")
    )
    with pytest.warns(
        UserWarning, match="of 60 clusters are near-empty.*: 300 patches are too few"
    ):
        model.fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_near_empty_clusters_of_large_patches(rng):
    X = rng.integers(0, 255, size=(20, 26, 26), dtype=np.uint8)
    model = ImageFeatures(
        40, patch_size=24, grid=(1, 1), n_patches=100, learner=SklearnKMeans(n_init=1)
    )
    with pytest.warns(UserWarning, match="patches of 576 numbers are too large.*epsilon"):
        model.fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*clusters are near-empty")
def test_constant_images():
    X = np.full((5, 8, 8, 3), 7, np.uint8)
    with pytest.warns(UserWarning, match="all patches are of one colour"):
        features = ImageFeatures(4, patch_size=3, random_state=0).fit_transform(X)
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features, 0)


@pytest.mark.filterwarnings("ignore:.* of 6 clusters are near-empty")  # so few patches
@pytest.mark.parametrize("encoder", ["transform", "transform-both-signs"])
@pytest.mark.parametrize("regions", [(1, 1), (1, 2)])
def test_codes_of_the_learner_in_a_model_file(images, tmp_path, encoder, regions):
    """The encoder is made from the learner of each region, also after loading."""
    model = ImageFeatures(
        6,
        patch_size=3,
        n_patches=200,
        learner=KMeans(max_iter=3),
        encoder=encoder,
        regions=regions,
        random_state=0,
    ).fit(images)
    loaded = clusterica.load(clusterica.save(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.transform(images), model.transform(images))


@pytest.mark.filterwarnings("ignore:.* of 6 clusters are near-empty")
def test_filters_in_pairs(images):
    settings = {"patch_size": 3, "n_patches": 200, "learner": CosineKMeans(max_iter=3)}
    model = ImageFeatures(6, **settings, random_state=0).fit(images)
    assert model.learner_.n_axes == 3
    assert model.filters_.shape[0] == 6
    with pytest.raises(ValueError, match="can't find 5; ask for a multiple of 2"):
        ImageFeatures(5, **settings).fit(images)
