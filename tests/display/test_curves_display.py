"""Displays of spectra, convergence, responses and groups: what is drawn, and what is refused."""

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from clusterica.cluster import GainShapeKMeans, KMeans
from clusterica.display import (
    ConvergenceDisplay,
    GroupsDisplay,
    ResponsesDisplay,
    SpectrumDisplay,
    tile_images,
)
from clusterica.ica import ClusterICA, KernelICA
from clusterica.images import ImageFeatures
from clusterica.networks import DependencyGroups
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture
def X():
    rng = np.random.default_rng()
    # Not any mixture: nearly singular ones have eigenvalues that are known to a few digits only.
    return rng.laplace(size=(500, 4)) @ np.linalg.qr(rng.normal(size=(4, 4)))[0] * [1, 2, 3, 4]


def test_spectrum_before_and_after(X, ax):
    whitener = Whitener(eps=0.5).fit(X)
    before, after = SpectrumDisplay.from_estimator(whitener, title="four", ax=ax).lines_
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    np.testing.assert_allclose(before.get_ydata(), eigenvalues)
    # What whitening leaves is measured on the whitened rows themselves.
    left = np.linalg.eigvalsh(np.cov(whitener.transform(X).T))[::-1]
    np.testing.assert_allclose(after.get_ydata(), left)
    assert ax.get_title() == "four"
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "eps = 0.5"


def test_spectrum_of_estimators_with_a_whitener(X, ax):
    ica = ClusterICA(random_state=0).fit(X)
    before = SpectrumDisplay.from_estimator(ica, ax=ax).lines_[0]
    np.testing.assert_allclose(before.get_ydata(), ica.whitener_.eigenvalues_)
    images = np.random.default_rng().uniform(0, 255, (20, 9, 9))
    features = ImageFeatures(4, patch_size=3, n_patches=400, random_state=0).fit(images)
    display = SpectrumDisplay.from_estimator(features, ax=Figure().subplots())
    assert len(display.lines_[0].get_ydata()) == 9


def test_spectrum_of_a_kernel_whitener(X, ax):
    # One step: in the space of the kernel some draws have directions that never converge.
    ica = KernelICA(3, tol=1.0, random_state=0).fit(X)
    before, after = SpectrumDisplay.from_estimator(ica, ax=ax).lines_
    np.testing.assert_allclose(before.get_ydata(), ica.whitener_.eigenvalues_)
    np.testing.assert_array_equal(after.get_ydata(), 1)  # it adds no constant


def test_a_direction_without_variance_stays_without(ax):
    before, after = SpectrumDisplay([2.0, -1e-18]).plot(ax=ax).lines_
    assert before.get_ydata().tolist() == [2.0, 0.0]
    assert after.get_ydata().tolist() == [1.0, 0.0]


def test_convergence_with_terms(X, ax):
    rica = RICA(4, tol=1e-3, random_state=0).fit(X)  # in some ten iterations
    display = ConvergenceDisplay.from_estimator(rica, ax=ax)
    total, *terms = (line.get_ydata() for line in display.lines_)
    np.testing.assert_array_equal(total, rica.objective_history_)
    np.testing.assert_allclose(np.sum(terms, axis=0), total)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "objective",
        "reconstruction",
        "penalty",
    ]


def test_responses_are_histograms(X, ax):
    ica = ClusterICA(random_state=0).fit(X)
    display = ResponsesDisplay.from_estimator(ica, X, n_shown=3, ax=ax)
    S = ica.transform(X)
    np.testing.assert_allclose(display.kurtosis_, stats.kurtosis(S), rtol=1e-5, atol=1e-5)
    *lines, gaussian = display.lines_
    assert len(lines) == 3
    edges = np.linspace(-10, 10, 81)
    z = np.clip((S[:, 0] - S[:, 0].mean()) / S[:, 0].std(), -10, 10)
    density, _ = np.histogram(z, edges, density=True)
    np.testing.assert_allclose(np.nan_to_num(lines[0].get_ydata()), density)
    middles = gaussian.get_xdata()
    np.testing.assert_allclose(gaussian.get_ydata(), stats.norm.pdf(middles))


def test_constant_responses_are_left_out(ax):
    S = np.column_stack([np.random.default_rng().normal(size=50), np.ones(50)])
    display = ResponsesDisplay(S).plot(ax=ax)
    assert len(display.lines_) == 2  # one, and the Gaussian
    assert np.isnan(display.kurtosis_).tolist() == [False, True]


def test_groups_are_rows_of_tiles(ax):
    rng = np.random.default_rng()
    filters = rng.normal(size=(6, 9))
    display = GroupsDisplay([[4, 0, 1], [2, 5]], filters).plot(ax=ax, n_columns=2, title="two")
    expected = tile_images(filters[[4, 0, 2, 5]], n_columns=2)
    np.testing.assert_array_equal(display.image_.get_array(), expected)
    assert ax.get_title() == "two"


def test_groups_of_an_estimator(ax):
    rng = np.random.default_rng()
    variance = np.repeat(rng.gamma(1.0, size=(5000, 2)), 2, axis=1)
    model = DependencyGroups(size=2, random_state=0).fit(
        np.sqrt(variance) * rng.normal(size=(5000, 4))
    )
    filters = rng.normal(size=(4, 4))
    display = GroupsDisplay.from_estimator(model, filters, ax=ax)
    expected = tile_images(filters[np.concatenate(model.groups_)], n_columns=2)
    np.testing.assert_array_equal(display.image_.get_array(), expected)
    assert len(ax.get_yticklabels()) == 2


@pytest.mark.parametrize("display", [SpectrumDisplay, ConvergenceDisplay])
def test_what_has_nothing_to_show_is_named(display, X, ax):
    with pytest.raises(TypeError, match="DBSCAN has no"):
        display.from_estimator(DBSCAN().fit(X), ax=ax)
    with pytest.raises(TypeError, match="pipeline"):
        display.from_estimator(make_pipeline(Whitener(), KMeans(2)).fit(X), ax=ax)
    with pytest.raises(NotFittedError):
        display.from_estimator(Whitener(), ax=ax)


def test_bad_values_are_named(X, ax):
    with pytest.raises(TypeError, match="DBSCAN has no transform"):
        ResponsesDisplay.from_estimator(DBSCAN().fit(X), X, ax=ax)
    with pytest.raises(TypeError, match="GainShapeKMeans has no groups_"):
        GroupsDisplay.from_estimator(GainShapeKMeans(2).fit(X), np.eye(4), ax=ax)
    with pytest.raises(ValueError, match="indices up to 9, and there are 4"):
        GroupsDisplay([[0, 9]], np.eye(4)).plot(ax=ax)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        ResponsesDisplay(np.ones(3)).plot(ax=ax)
    with pytest.raises(ValueError, match="n_shown is 0"):
        ResponsesDisplay(X).plot(ax=ax, n_shown=0)
    with pytest.raises(ValueError, match="largest above 0"):
        SpectrumDisplay([0.0]).plot(ax=ax)
    with pytest.raises(ValueError, match=r"history has shape \(0,\)"):
        ConvergenceDisplay([]).plot(ax=ax)
