"""Displays of image features: stages of patches, filters in pixels, sizes of clusters."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from clusterica.cluster import KMeans
from clusterica.display import (
    ClusterSizesDisplay,
    FiltersDisplay,
    StagesDisplay,
    tile_images,
)
from clusterica.images import ImageFeatures, sample_patches
from clusterica.preprocessing import Whitener

Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng()
    smooth = np.cumsum(np.cumsum(rng.standard_normal((30, 14, 14, 3)), axis=1), axis=2)
    return 127 + 127 * smooth / np.abs(smooth).max()


def fitted(images, **settings):
    settings = {"n_patches": 1500, "patch_size": 4, "random_state": 0, **settings}
    return ImageFeatures(8, **settings).fit(images)


@pytest.fixture(scope="module")
def features(images):
    return fitted(images)


@pytest.fixture(scope="module")
def patches(images):
    return sample_patches(images, 20, patch_size=4, random_state=1)


def tile(display, line, column, *, side=4):
    """Return one tile of a picture of stages, as it was drawn."""
    top, left = 1 + line * (side + 1), 1 + column * (side + 1)
    return np.asarray(display.image_.get_array())[top : top + side, left : left + side]


# --- Stages ----------------------------------------------------------------------------------------


def test_one_line_of_tiles_for_every_step(ax, features, patches):
    display = StagesDisplay.from_estimator(features, patches, max_patches=5, ax=ax, title="steps")
    assert list(display.stages) == ["raw", "normalized", "whitened", "best filter"]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "raw",
        "normalised",
        "whitened",
        "best filter",
    ]
    assert ax.get_title() == "steps"
    assert display.image_.get_array().shape == (4 * 5 + 1, 5 * 5 + 1, 3)
    assert all(values.shape == (5, 48) for values in display.stages.values())


def test_steps_are_those_of_the_estimator(ax, features, patches):
    display = StagesDisplay.from_estimator(features, patches, ax=ax)
    normal = features.normalizer_.transform(patches[:16])
    white = features.whitener_.transform(normal)
    np.testing.assert_allclose(display.stages["normalized"], normal, atol=1e-4)
    np.testing.assert_allclose(display.stages["whitened"], white, atol=1e-3)


def test_best_filter_explains_most_of_a_patch(ax, features, patches):
    display = StagesDisplay.from_estimator(features, patches, ax=ax)
    white, best = (display.stages[name] for name in ("whitened", "best filter"))
    for x, shown in zip(white, best, strict=True):
        left = [((x - (d @ x) * d) ** 2).sum() for d in features.filters_]
        np.testing.assert_allclose(((x - shown) ** 2).sum(), min(left), rtol=1e-3)


def test_greys_of_a_tile(ax, features, patches):
    display = StagesDisplay.from_estimator(features, patches, max_patches=6, ax=ax)
    raw = patches[:6]
    np.testing.assert_allclose(
        tile(display, 0, 2),
        (raw[2].reshape(4, 4, 3) - raw.min()) / (raw.max() - raw.min()),
        atol=1e-5,
    )
    white, best = (display.stages[name] for name in ("whitened", "best filter"))
    peak = np.quantile(np.abs(white), 0.995)
    for line, values in ((2, white), (3, best)):  # the same scale, so that they can be compared
        expected = 0.5 + np.clip(values[1] / peak, -1, 1).reshape(4, 4, 3) / 2
        np.testing.assert_allclose(tile(display, line, 1), expected, atol=1e-5)


@pytest.mark.parametrize("method", ["pca", "cholesky"])
def test_all_whitening_matrices_look_like_zca(ax, images, patches, method):
    shown = [
        StagesDisplay.from_estimator(
            fitted(images, whitener=Whitener(which, eps=0.1)), patches, ax=ax
        ).stages["whitened"]
        for which in ("zca", method)
    ]
    np.testing.assert_allclose(shown[1], shown[0], atol=2e-3)


def test_steps_left_out_and_fewer_components(ax, images, patches):
    plain = fitted(images, normalizer=None, whitener=None)
    assert list(StagesDisplay.from_estimator(plain, patches, ax=ax).stages) == [
        "raw",
        "best filter",
    ]
    short = fitted(images, whitener=Whitener("pca", eps=0.1, n_components=10))
    display = StagesDisplay.from_estimator(short, patches, ax=ax)
    assert display.stages["whitened"].shape == (16, 48)
    foreign = fitted(images, whitener=PCA(10, whiten=True))
    assert list(StagesDisplay.from_estimator(foreign, patches, ax=ax).stages) == [
        "raw",
        "normalized",
    ]


def test_stages_of_a_region(ax, images, patches):
    two = fitted(images, regions=(1, 2))
    shown = [
        StagesDisplay.from_estimator(two, patches, region=region, ax=ax).stages["whitened"]
        for region in (0, 1)
    ]
    for region in (0, 1):
        white = two.whitener_[region].transform(two.normalizer_[region].transform(patches[:16]))
        np.testing.assert_allclose(shown[region], white, atol=1e-3)
    assert np.abs(shown[0] - shown[1]).max() > 0.01


def test_stages_of_tensors(ax, images, patches):
    torch = pytest.importorskip("torch")
    model = fitted(torch.asarray(images.astype(np.float32)))
    display = StagesDisplay.from_estimator(model, torch.asarray(patches), ax=ax)
    assert display.stages["best filter"].shape == (16, 48)


def test_constant_patches_are_grey(ax):
    display = StagesDisplay({"raw": np.ones((2, 4)), "normalized": np.zeros((2, 4))}).plot(ax=ax)
    assert (tile(display, 0, 0, side=2) == 0.5).all()
    assert (tile(display, 1, 1, side=2) == 0.5).all()


def test_stages_errors(ax, features, patches, images):
    with pytest.raises(NotFittedError):
        StagesDisplay.from_estimator(ImageFeatures(), patches, ax=ax)
    with pytest.raises(ValueError, match="max_patches is 0"):
        StagesDisplay.from_estimator(features, patches, max_patches=0, ax=ax)
    with pytest.raises(ValueError, match="rows of 48 numbers"):
        StagesDisplay.from_estimator(features, patches[:, :5], ax=ax)
    with pytest.raises(ValueError, match=r"shapes \[\(2, 4\), \(3, 4\)\]"):
        StagesDisplay({"raw": np.ones((2, 4)), "whitened": np.ones((3, 4))}).plot(ax=ax)
    two_channels = fitted(images[..., :2])
    with pytest.raises(ValueError, match="patches have 2 channels"):
        StagesDisplay.from_estimator(two_channels, patches[:, :32], ax=ax)


def test_stages_in_a_new_figure(features, patches):
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    display = StagesDisplay.from_estimator(features, patches)
    width, height = display.figure_.get_size_inches()
    assert width > 2 * height
    pyplot.close(display.figure_)


# --- Filters ---------------------------------------------------------------------------------------


def test_filters_in_pixels_and_whitened(ax, features):
    shown = {
        show: FiltersDisplay.from_estimator(features, show=show, ax=ax)
        for show in ("patterns", "filters", "whitened")
    }
    np.testing.assert_allclose(shown["filters"].filters, features.pixel_filters_)
    np.testing.assert_allclose(shown["whitened"].filters, features.filters_, atol=1e-5)
    back = shown["patterns"].filters @ features.whitener_.whitening_.T
    np.testing.assert_allclose(back, features.filters_, atol=1e-3)
    np.testing.assert_allclose(
        shown["patterns"].image_.get_array(),
        tile_images(features.pixel_patterns_, shape=(4, 4, 3)),
        atol=1e-6,
    )


def test_grey_filters_and_regions(ax, images):
    grey = fitted(images.mean(axis=3), regions=(2, 1))
    display = FiltersDisplay.from_estimator(grey, region=1, show="filters", ax=ax)
    assert display.image_.get_array().ndim == 2
    np.testing.assert_allclose(display.filters, grey.pixel_filters_[1])


def test_whitened_centroids_of_a_clusterer(ax):
    X = np.random.default_rng().standard_normal((80, 4)) * [1, 2, 3, 4]
    rows = {}
    for method in ("zca", "pca"):
        whitener = Whitener(method, eps=0.1).fit(X)
        start = whitener.transform(X[:3])  # the same rows, so that both fits take the same way
        model = KMeans(3, init=start).fit(whitener.transform(X))
        display = FiltersDisplay.from_estimator(model, whitener=whitener, show="whitened", ax=ax)
        rows[method] = display.filters
    np.testing.assert_allclose(rows["pca"], rows["zca"], atol=1e-6)


def test_filters_of_four_channels(ax, images):
    four = fitted(np.concatenate([images, images[..., :2]], axis=3))
    with pytest.raises(ValueError, match="patches have 5 channels"):
        FiltersDisplay.from_estimator(four, ax=ax)


# --- Sizes of clusters -----------------------------------------------------------------------------


def test_sizes_in_falling_order(ax):
    display = ClusterSizesDisplay([3, 1000, 0, 200]).plot(ax=ax)
    np.testing.assert_array_equal(display.line_.get_ydata(), [1000, 200, 3, 0])
    assert ax.get_yscale() == "symlog"
    assert ax.get_title() == "2 of 4 clusters near-empty (50 %)"  # 3 is below a hundredth of 300.75


def test_sizes_of_clusterers(ax):
    X = np.random.default_rng().standard_normal((60, 2))
    for model in (KMeans(4, random_state=0), SklearnKMeans(4, n_init=1, random_state=0)):
        display = ClusterSizesDisplay.from_estimator(model.fit(X), ax=ax, title="four")
        expected = np.sort(np.bincount(model.labels_, minlength=4))[::-1]
        np.testing.assert_array_equal(display.line_.get_ydata(), expected)
        assert ax.get_title() == "four"


def test_sizes_of_image_features(ax, images, features):
    display = ClusterSizesDisplay.from_estimator(features, ax=ax)
    assert display.line_.get_ydata().sum() == 1500
    two = fitted(images, regions=(1, 2))
    display = ClusterSizesDisplay.from_estimator(two, region=1, ax=ax)
    np.testing.assert_array_equal(display.line_.get_ydata(), np.sort(two.learner_[1].counts_)[::-1])


def test_sizes_errors(ax, images):
    with pytest.raises(NotFittedError):
        ClusterSizesDisplay.from_estimator(KMeans(2), ax=ax)
    with pytest.raises(TypeError, match="DBSCAN has no clusters to count"):
        ClusterSizesDisplay.from_estimator(DBSCAN().fit(np.ones((5, 2))), ax=ax)
    with pytest.raises(TypeError, match="ImageFeatures has no clusters"):
        ClusterSizesDisplay.from_estimator(fitted(images, learner="patches"), ax=ax)
    for sizes in ([], [[1, 2]], [3, -1]):
        with pytest.raises(ValueError, match="number of rows of each cluster"):
            ClusterSizesDisplay(sizes).plot(ax=ax)
