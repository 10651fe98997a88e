"""The density and its cuts as a picture, and the displays of clusterers for an ICA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from clusterica.cluster import DensityClusterer, KMeans
from clusterica.datasets import make_sparse_sources
from clusterica.display import CentersDisplay, DensityDisplay, FiltersDisplay
from clusterica.ica import ClusterICA
from clusterica.preprocessing import Whitener

Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 1, size=60) for c in (0, 9, 18)])[:, None]


# --- DensityDisplay --------------------------------------------------------------------------------


def test_density_of_a_clusterer(ax, X):
    model = DensityClusterer(bandwidth=1.0).fit(X)
    display = DensityDisplay.from_estimator(model, X, title="three", ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_title() == "three"
    np.testing.assert_array_equal(display.line_.get_data(), [model.grid_, model.density_])
    assert [cut.get_xdata()[0] for cut in display.cuts_] == model.valleys_.tolist()
    np.testing.assert_array_equal(display.points_[0].get_xdata(), X[:, 0])
    assert len(ax.get_yticks(minor=True)) == 0
    left, right = ax.get_xlim()
    assert left < X.min()
    assert right > X.max()


def test_each_cluster_has_its_area(ax, X):
    """The areas lie between the cuts, have different colors, and add up to one."""
    model = DensityClusterer(bandwidth=1.0).fit(X)
    fills = DensityDisplay.from_estimator(model, ax=ax).fills_
    assert len(fills) == model.n_clusters_ == 3
    ends = [model.grid_[0], *model.valleys_, model.grid_[-1]]
    total = 0.0
    for fill, left, right in zip(fills, ends[:-1], ends[1:], strict=True):
        corners = fill.get_paths()[0].vertices
        assert corners[:, 0].min() == pytest.approx(left)
        assert corners[:, 0].max() == pytest.approx(right)
        x, f = corners[:, 0], corners[:, 1]
        area = 0.5 * abs(np.sum(x * np.roll(f, 1) - f * np.roll(x, 1)))  # of a polygon
        assert area == pytest.approx(1 / 3, abs=0.01)
        total += area
    assert total == pytest.approx(1, abs=1e-3)
    assert len({tuple(fill.get_facecolor()[0]) for fill in fills}) == 3


def test_classes_of_rows(ax, X):
    y = np.repeat(["c", "a", "b"], 60)
    display = DensityDisplay.from_estimator(DensityClusterer().fit(X), X, y=y, ax=ax)
    names = ax.get_yticklabels(minor=True)
    assert [text.get_text() for text in names] == ["a", "b", "c"]
    assert [text.get_color() for text in names] == [p.get_color() for p in display.points_]
    assert ax.get_yticks(minor=True).tolist() == [p.get_ydata()[0] for p in display.points_]
    for line, name in zip(display.points_, "abc", strict=True):
        np.testing.assert_array_equal(line.get_xdata(), X[y == name, 0])
    heights = [line.get_ydata()[0] for line in display.points_]
    assert 0 > heights[0] > heights[1] > heights[2] > ax.get_ylim()[0]
    assert min(ax.get_yticks()) == 0


def test_rows_are_thinned_out(ax, X):
    display = DensityDisplay.from_estimator(DensityClusterer().fit(X), X, max_points=50, ax=ax)
    np.testing.assert_array_equal(display.points_[0].get_xdata(), X[::4, 0])


def test_a_pipeline_projects_the_rows(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) + 12 * (np.arange(100) % 2)[:, None]
    model = make_pipeline(PCA(1), DensityClusterer()).fit(X)
    display = DensityDisplay.from_estimator(model, X, y=np.arange(100) % 2, ax=ax)
    projected = model[0].transform(X)[:, 0]
    np.testing.assert_array_equal(display.points_[0].get_xdata(), projected[::2])
    assert len(display.cuts_) == 1
    # A pipeline of the clusterer alone.
    alone = make_pipeline(DensityClusterer()).fit(projected[:, None])
    assert len(DensityDisplay.from_estimator(alone, projected[:, None], ax=ax).cuts_) == 1


def test_tensors(ax, X, put):
    model = DensityClusterer().fit(put(X))
    display = DensityDisplay.from_estimator(model, put(X), y=put(np.repeat([0, 1, 2], 60)), ax=ax)
    np.testing.assert_array_equal(
        np.concatenate([line.get_xdata() for line in display.points_]), X[:, 0]
    )


def test_long_tails_are_left_out(ax):
    x = np.random.default_rng(0).standard_cauchy(3000)
    DensityDisplay.from_estimator(DensityClusterer().fit(x[:, None]), x[:, None], ax=ax)
    left, right = ax.get_xlim()
    assert right - left < np.ptp(x) / 5
    assert left < np.quantile(x, 0.05)
    assert right > np.quantile(x, 0.95)


def test_density_without_rows(ax):
    grid = np.linspace(-1, 1, 11)
    display = DensityDisplay(grid, 1 - grid**2).plot(ax=ax)
    assert (len(display.fills_), display.cuts_, display.points_) == (1, [], [])
    assert ax.get_ylim()[0] == 0
    assert len(DensityDisplay(grid, 1 - grid**2, valleys=[0.2]).plot(ax=ax).fills_) == 2


def test_density_errors(ax, X):
    fitted = DensityClusterer().fit(X)
    with pytest.raises(NotFittedError):
        DensityDisplay.from_estimator(DensityClusterer(), X, ax=ax)
    with pytest.raises(TypeError, match="KMeans has no density_ to show; pass a DensityClusterer"):
        DensityDisplay.from_estimator(KMeans(2, random_state=0).fit(X), X, ax=ax)
    with pytest.raises(ValueError, match=r"x has shape \(5, 2\)"):
        DensityDisplay.from_estimator(fitted, np.ones((5, 2)), ax=ax)
    with pytest.raises(ValueError, match=r"y has shape \(3,\).* 180 rows"):
        DensityDisplay.from_estimator(fitted, X, y=[1, 2, 3], ax=ax)
    with pytest.raises(ValueError, match="there are none; pass X"):
        DensityDisplay.from_estimator(fitted, y=[1, 2, 3], ax=ax)
    with pytest.raises(ValueError, match="max_points is 0"):
        DensityDisplay.from_estimator(fitted, X, max_points=0, ax=ax)
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(2,\)"):
        DensityDisplay([0, 1, 2], [1, 2]).plot(ax=ax)
    with pytest.raises(ValueError, match="positive somewhere"):
        DensityDisplay([0, 1], [0, 0]).plot(ax=ax)


# --- The other displays, for sources in place of centroids -----------------------------------------


@pytest.fixture(scope="module")
def mixed():
    """Two Laplace sources, mixed by a matrix that is not orthogonal."""
    return make_sparse_sources(4000, 2, mixing=np.array([[2.0, 1.0], [0.0, 1.0]]), random_state=0)


def test_centers_of_cluster_ica_lie_along_the_tails(ax, mixed):
    ica = ClusterICA(refine=None, random_state=0).fit(mixed.X)
    display = CentersDisplay.from_estimator(ica, mixed.X, length=1.0, ax=ax)
    tips = np.array([arrow.xy for arrow in display.arrows_])
    assert len(tips) == 4  # both signs of both sources
    directions = mixed.A / np.linalg.norm(mixed.A, axis=0)
    cosines = tips @ directions
    np.testing.assert_allclose(cosines.max(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(cosines.min(axis=0), -1, atol=0.02)


def test_centers_of_another_ica(ax, mixed):
    ica = FastICA(random_state=0).fit(mixed.X)
    display = CentersDisplay.from_estimator(ica, mixed.X, ax=ax)
    np.testing.assert_allclose([arrow.xy for arrow in display.arrows_], ica.mean_ + ica.mixing_.T)


@pytest.mark.parametrize("make", [ClusterICA, FastICA])
def test_filters_of_an_ica(ax, make):
    X = make_sparse_sources(4000, 4, mixing="orthogonal", random_state=0).X
    ica = make(random_state=0).fit(X)
    patterns = FiltersDisplay.from_estimator(ica, ax=ax)
    np.testing.assert_array_equal(patterns.filters, ica.mixing_.T)
    filters = FiltersDisplay.from_estimator(ica, show="filters", ax=ax)
    np.testing.assert_array_equal(filters.filters, ica.components_)
    with pytest.raises(ValueError, match="show is 'both'"):
        FiltersDisplay.from_estimator(ica, show="both", ax=ax)


def test_filters_of_an_ica_after_whitening(ax):
    """Filters and patterns of the pixels: their product is that of components_ and mixing_."""
    X = make_sparse_sources(2000, 4, random_state=0).X @ np.diag([1.0, 2.0, 3.0, 4.0])
    whitener = Whitener("pca", eps=0.0).fit(X)
    ica = FastICA(random_state=0).fit(whitener.transform(X))
    filters, patterns = (
        FiltersDisplay.from_estimator(ica, whitener=whitener, show=show, ax=ax).filters
        for show in ("filters", "patterns")
    )
    np.testing.assert_allclose(filters @ patterns.T, np.eye(4), atol=1e-6)
    S = (X - X.mean(axis=0)) @ filters.T
    np.testing.assert_allclose(S, ica.transform(whitener.transform(X)), atol=1e-6)
