"""Sources over time and columns of the mixing matrix: what is drawn, and what is refused."""

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import DBSCAN
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica.cluster import KMeans
from clusterica.display import MixingDisplay, SourcesDisplay
from clusterica.ica import ClusterICA
from clusterica.rica import RICA

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure()


@pytest.fixture
def X():
    rng = np.random.default_rng()
    return rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))


def test_sources_of_an_estimator(X, figure):
    ica = ClusterICA(random_state=0).fit(X)
    display = SourcesDisplay.from_estimator(
        ica, X, sampling_rate=100.0, title="three", ax=figure.subplots()
    )
    S = ica.transform(X)
    for j, line in enumerate(display.lines_):
        t, y = line.get_data()
        np.testing.assert_allclose(t, np.arange(2000) / 100)
        # The source itself, at its own height, and with the scale of all others.
        assert np.corrcoef(y, S[:, j])[0, 1] == pytest.approx(1)
        assert np.mean(y) == pytest.approx(-j, abs=1e-6)
    scales = [np.std(line.get_ydata()) for line in display.lines_]
    np.testing.assert_allclose(scales, scales[0], rtol=1e-6)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [f"source {j}  κ = {ica.kurtosis_[j]:.2g}" for j in range(3)]
    assert display.ax_.get_xlabel() == "time (s)"
    assert display.ax_.get_title() == "three"


def test_kurtosis_of_given_sources(X, figure):
    display = SourcesDisplay.from_sources(X, names=["a", "b", "c"], ax=figure.subplots())
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [f"{n}  κ = {k:.2g}" for n, k in zip("abc", stats.kurtosis(X), strict=True)]
    assert display.ax_.get_xlabel() == "sample"


def test_a_piece_of_time(X, figure):
    display = SourcesDisplay.from_sources(
        X, sampling_rate=10.0, start=5.0, stop=8.0, ax=figure.subplots()
    )
    t = display.lines_[0].get_xdata()
    assert (t[0], len(t)) == (5.0, 30)


def test_no_spike_of_a_long_recording_is_lost(figure):
    S = np.zeros((1_000_000, 2))
    S[123_456, 0], S[654_321, 1] = 1.0, -1.0
    display = SourcesDisplay.from_sources(S, ax=figure.subplots())
    first, second = (line.get_ydata() for line in display.lines_)
    assert len(first) <= 4000
    assert first.max() > 1
    assert second.min() < -2
    at = display.lines_[0].get_xdata()[first.argmax()]
    assert abs(at - 123_456) < 1000


@pytest.mark.parametrize(
    "make", [lambda: PCA(2), lambda: make_pipeline(StandardScaler(), ClusterICA(random_state=0))]
)
def test_other_estimators(make, X, figure):
    model = make().fit(X)
    display = SourcesDisplay.from_estimator(model, X, ax=figure.subplots())
    assert len(display.lines_) == model.transform(X).shape[1]


def test_tensors(X, figure):
    torch = pytest.importorskip("torch")
    ica = ClusterICA(random_state=0).fit(torch.asarray(X))
    assert (
        len(SourcesDisplay.from_estimator(ica, torch.asarray(X), ax=figure.subplots()).lines_) == 3
    )
    assert len(MixingDisplay.from_estimator(ica, figure=figure).bars_) == 3


@pytest.mark.parametrize("n_sources", [3, 11])
def test_columns_of_the_mixing_matrix(n_sources, figure):
    rng = np.random.default_rng()
    X = rng.laplace(size=(500, 4))
    model = RICA(n_sources, max_iter=3, tol=1.0, random_state=0).fit(X)
    display = MixingDisplay.from_estimator(model, feature_names=list("abcd"), figure=figure)
    assert len(display.bars_) == len(display.axes_) == len(figure.axes) == n_sources
    for j, bars in enumerate(display.bars_):
        np.testing.assert_allclose([bar.get_width() for bar in bars], model.mixing_[:, j])
    assert [t.get_text() for t in display.axes_[0].get_yticklabels()] == list("abcd")


def test_new_figures(X):
    from matplotlib import pyplot

    ica = ClusterICA(random_state=0).fit(X)
    for display in (SourcesDisplay.from_estimator(ica, X), MixingDisplay.from_estimator(ica)):
        display.figure_.canvas.draw()
        pyplot.close(display.figure_)


def test_bad_input(X, figure):
    ax = figure.subplots()
    with pytest.raises(ValueError, match=r"did you mean S\.T"):
        SourcesDisplay.from_sources(np.zeros((20, 500)), ax=ax)
    with pytest.raises(ValueError, match=r"\(n_samples, n_sources\)"):
        SourcesDisplay.from_sources(np.zeros(9), ax=ax)
    with pytest.raises(ValueError, match="sampling_rate=0 must be above 0"):
        SourcesDisplay.from_sources(X, sampling_rate=0, ax=ax)
    with pytest.raises(ValueError, match="hold no sample; there are 20 seconds"):
        SourcesDisplay.from_sources(X, sampling_rate=100.0, start=30.0, ax=ax)
    with pytest.raises(NotFittedError):
        SourcesDisplay.from_estimator(ClusterICA(), X, ax=ax)
    with pytest.raises(TypeError, match="has no transform"):
        SourcesDisplay.from_estimator(DBSCAN().fit(X), X, ax=ax)
    with pytest.raises(ValueError, match=r"\(n_features, n_sources\)"):
        MixingDisplay([1.0]).plot(figure=figure)
    with pytest.raises(ValueError, match="1 names are given for 2 sources"):
        SourcesDisplay.from_sources(np.eye(2), names=["a"], ax=ax)
    with pytest.raises(ValueError, match="2 feature_names are given for 3"):
        MixingDisplay(np.eye(3), feature_names=["a", "b"]).plot(figure=figure)


def test_vectors_of_a_clusterer(X, figure):
    model = KMeans(5, random_state=0).fit(X)
    assert len(MixingDisplay.from_estimator(model, figure=figure).bars_) == 5
