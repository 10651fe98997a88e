"""Displays draw what the estimator learned, on the axes they are given."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.preprocessing import StandardScaler

from clusterica.cluster import KMeans
from clusterica.datasets import make_sparse_sources
from clusterica.display import CentersDisplay, FiltersDisplay, check_matplotlib, tile_images
from clusterica.ica import ClusterICA, KernelICA
from clusterica.networks.recipes import make_classifier
from clusterica.preprocessing import Whitener

Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((60, 4)) * [1, 2, 3, 4]


def test_filters_of_an_estimator(ax, X):
    estimator = KMeans(3, random_state=0).fit(X)
    display = FiltersDisplay.from_estimator(estimator, ax=ax, title="three")
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_title() == "three"
    np.testing.assert_allclose(
        display.image_.get_array(), tile_images(estimator.cluster_centers_), atol=1e-6
    )


def test_filters_of_components(ax):
    from sklearn.decomposition import PCA

    pca = PCA(2).fit(np.random.default_rng(0).standard_normal((20, 9)))
    assert FiltersDisplay.from_estimator(pca, ax=ax).filters.shape == (2, 9)


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_patterns_whiten_to_the_centroids(ax, X, method):
    whitener = Whitener(method=method, eps=1e-9).fit(X)
    estimator = KMeans(3, random_state=0).fit(whitener.transform(X))
    display = FiltersDisplay.from_estimator(estimator, whitener=whitener, ax=ax)
    back = whitener.transform(display.filters + whitener.mean_)
    np.testing.assert_allclose(back, estimator.cluster_centers_, atol=1e-6)


def test_filters_respond_as_the_centroids_do(ax, X):
    whitener = Whitener(method="pca", eps=0.1).fit(X)
    estimator = KMeans(3, random_state=0).fit(whitener.transform(X))
    display = FiltersDisplay.from_estimator(estimator, whitener=whitener, show="filters", ax=ax)
    np.testing.assert_allclose(
        (X - whitener.mean_) @ display.filters.T,
        whitener.transform(X) @ estimator.cluster_centers_.T,
        atol=1e-6,
    )


def test_filters_errors(ax, X):
    with pytest.raises(NotFittedError):
        FiltersDisplay.from_estimator(KMeans(3), ax=ax)
    with pytest.raises(TypeError, match="StandardScaler has neither"):
        FiltersDisplay.from_estimator(StandardScaler().fit(X), ax=ax)
    fitted = KMeans(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="show is 'all'"):
        FiltersDisplay.from_estimator(fitted, whitener=Whitener().fit(X), show="all", ax=ax)


@pytest.mark.filterwarnings("ignore:.*max_iter")
@pytest.mark.parametrize("estimator", [KernelICA(4)], ids=str)
def test_components_of_kernel_space_are_no_pictures(ax, X, estimator):
    """Though each has four numbers, as a row has."""
    estimator.set_params(max_iter=2, random_state=0).fit(X)
    for show in ("patterns", "filters", "whitened"):
        with pytest.raises(TypeError, match=r"has neither .* in the space of its input"):
            FiltersDisplay.from_estimator(estimator, show=show, ax=ax)
    with pytest.raises(TypeError, match=r"has neither .* in the space of its input"):
        CentersDisplay.from_estimator(estimator, X[:, :2], ax=ax)


def test_new_figure_without_axes(X):
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    display = FiltersDisplay(X[:2]).plot()
    assert display.figure_.number in pyplot.get_fignums()
    pyplot.close(display.figure_)


def test_centers_of_an_estimator(ax):
    X = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [4.0, 1.0]])
    estimator = SklearnKMeans(2, n_init=1, random_state=0).fit(X)
    display = CentersDisplay.from_estimator(estimator, X, ax=ax)
    tips = sorted(arrow.xy for arrow in display.arrows_)
    np.testing.assert_allclose(tips, [(0, 0.5), (4, 0.5)])
    np.testing.assert_allclose(display.points_.get_offsets(), X)


@pytest.mark.parametrize("length", [None, 2.0])
def test_arrows_begin_at_the_mean_of_an_ica(ax, length):
    X, _, _ = make_sparse_sources(3000, 2, mixing=[[2, 1], [0, 1]])
    X += np.array([30, -20])
    ica = ClusterICA(random_state=0).fit(X)
    display = CentersDisplay.from_estimator(ica, X, ax=ax, length=length)
    tips = np.array([arrow.xy for arrow in display.arrows_])
    C = ica.mixing_centroids_
    if length is not None:
        C = length * C / np.linalg.norm(C, axis=1, keepdims=True)
    np.testing.assert_allclose(tips, ica.mean_ + C)
    np.testing.assert_allclose([a.xyann for a in display.arrows_], [tuple(ica.mean_)] * len(C))
    np.testing.assert_allclose([np.mean(ax.get_xlim()), np.mean(ax.get_ylim())], ica.mean_)


def test_length_of_the_arrows_and_number_of_points(ax):
    X = np.arange(20.0).reshape(10, 2)
    display = CentersDisplay(X, [[3.0, 4.0]]).plot(ax=ax, length=10, max_points=4)
    np.testing.assert_allclose(display.arrows_[0].xy, (6, 8))
    np.testing.assert_allclose(display.points_.get_offsets(), X[[0, 3, 6, 9]])


def test_centers_errors(ax):
    with pytest.raises(ValueError, match=r"X has shape \(2, 3\)"):
        CentersDisplay(np.ones((2, 3)), np.ones((1, 2))).plot(ax=ax)
    with pytest.raises(ValueError, match=r"centers has shape \(1, 3\)"):
        CentersDisplay(np.ones((2, 2)), np.ones((1, 3))).plot(ax=ax)
    with pytest.raises(ValueError, match="max_points is 0"):
        CentersDisplay(np.ones((2, 2)), np.ones((1, 2))).plot(ax=ax, max_points=0)


def test_confusion_of_a_classifier_of_images(ax):
    """That of scikit-learn takes our classifiers, with class names."""
    rng = np.random.default_rng()
    y = np.repeat(["dark", "light"], 20)
    images = rng.normal(size=(40, 8, 8)) + 100 * (y == "light")[:, None, None] * np.eye(8)
    model = make_classifier("fast", (8, 8), n_filters=8, random_state=0).fit(images, y)
    display = ConfusionMatrixDisplay.from_estimator(model, images, y, ax=ax)
    assert display.confusion_matrix.sum() == 40
    assert [text.get_text() for text in ax.get_xticklabels()] == ["dark", "light"]


def test_missing_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'The picture needs.*pip install "clusterica\[plot\]"'):
        check_matplotlib("The picture")
    with pytest.raises(ImportError, match="FiltersDisplay needs matplotlib"):
        FiltersDisplay(np.ones((1, 4))).plot()


def test_importing_display_leaves_matplotlib_alone():
    code = "import sys, clusterica.display; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
