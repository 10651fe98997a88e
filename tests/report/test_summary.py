"""A summary has the numbers that loops over the same patches give, stays small, and can be saved."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline

import clusterica
from clusterica.cluster import GainShapeKMeans, KMeans
from clusterica.datasets import make_sparse_sources
from clusterica.display import tile_images
from clusterica.ica import ClusterICA
from clusterica.images import ImageFeatures, sample_patches
from clusterica.linear import RidgeClassifier
from clusterica.networks import Committee, FeatureNetwork, ImageClassifier, Layer
from clusterica.preprocessing import Whitener
from clusterica.report import model_page, summarize
from clusterica.rica import RICA


@pytest.fixture(scope="module")
def looked_at(features, digits):
    """The summary of image features, the patches it saw, and their whitened rows."""
    X = digits[0]
    patches = sample_patches(X, 20_000, patch_size=4, random_state=np.random.default_rng(3))
    white = features.whitener_.transform(features.normalizer_.transform(patches))
    return summarize(features, X, random_state=3)["banks"][0], patches, white


def test_kurtosis_of_responses(looked_at, features):
    bank, _, white = looked_at
    expected = [stats.kurtosis(white @ d) for d in features.filters_]
    assert bank["kurtosis"] == pytest.approx(expected, rel=1e-2, abs=1e-2)
    assert bank["n_sampled"] == len(white)


def test_patches_are_those_with_the_largest_response(looked_at, features):
    bank, patches, white = looked_at
    assert bank["patches"].shape == (24, 8, 4, 4, 1)
    for j, shown in zip(bank["patches_of"], bank["patches"], strict=True):
        best = patches[np.argmax(white @ features.filters_[j])]
        scaled = np.rint(255 * (best - best.min()) / (best.max() - best.min()))
        assert np.array_equal(shown[0].ravel(), scaled)


def test_sizes_are_those_of_the_learner(looked_at, features):
    bank, _, _ = looked_at
    counts = features.learner_.counts_
    assert bank["size"] == pytest.approx(counts / counts.sum())
    assert bank["size"].sum() == pytest.approx(1)


def test_sizes_from_the_sample_where_the_learner_has_none(digits):
    model = ImageFeatures(12, patch_size=4, n_patches=2000, learner="patches", random_state=0)
    X = digits[0]
    bank = summarize(model.fit(X), X, random_state=1)["banks"][0]
    patches = sample_patches(X, 20_000, patch_size=4, random_state=np.random.default_rng(1))
    white = model.whitener_.transform(model.normalizer_.transform(patches))
    counts = np.zeros(12)
    for x in white:
        counts[np.argmax(np.abs(model.filters_ @ x))] += 1
    # Filters are unit rows; a tie by rounding may go either way.
    assert np.abs(bank["size"] * len(white) - counts).sum() <= 4


def test_pixels_are_those_of_the_display(looked_at, features):
    bank, _, _ = looked_at
    for pixels, pattern in zip(bank["pixels"], features.pixel_patterns_, strict=True):
        assert np.array_equal(pixels[:, :, 0], np.rint(255 * tile_images([pattern], pad=0)))


def test_spectrum_and_convergence(looked_at, features):
    bank, _, _ = looked_at
    assert np.allclose(bank["spectrum"]["eigenvalues"], features.whitener_.eigenvalues_)
    assert bank["spectrum"]["eps"] == features.whitener_.eps_
    assert np.allclose(bank["history"]["objective"], features.learner_.objective_history_)
    assert bank["history"]["n_iter"] == features.learner_.n_iter_
    assert bank["n_learned_from"] == 4000


def test_validation(summary, classifier, digits):
    X, y = digits
    predicted = classifier.predict(X[300:])
    validation = summary["validation"]
    assert validation["accuracy"] == np.mean(predicted == y[300:])
    assert np.array_equal(validation["confusion"], confusion_matrix(y[300:], predicted))
    wrong = np.flatnonzero(predicted != y[300:])
    assert validation["n_errors"] == len(wrong) > 0
    for error in validation["errors"]:
        same = [i for i in wrong if np.array_equal(X[300 + i], error["image"][:, :, 0])]
        assert any(
            (str(y[300 + i]), str(predicted[i])) == (error["true"], error["predicted"])
            for i in same
        )


def test_predictions_can_be_given(classifier, digits):
    X, y = digits
    given = summarize(classifier, validation=(X[:4], y[:4], np.roll(y[:4], 1)))["validation"]
    assert given["accuracy"] == np.mean(y[:4] == np.roll(y[:4], 1))


@pytest.mark.parametrize(
    ("validation", "message"),
    [((1, 2, 3, 4), "4 parts"), ((np.ones((3, 8, 8)), [1, 2]), "parts of 3, 2 entries")],
)
def test_wrong_validation(classifier, validation, message):
    with pytest.raises(ValueError, match=message):
        summarize(classifier, validation=validation)


def test_data_and_settings(summary):
    assert summary["data"]["n"] == 300
    assert summary["data"]["shape"] == [8, 8]
    assert sum(summary["data"]["counts"]) == 300
    assert summary["data"]["classes"] == [str(i) for i in range(10)]
    assert summary["settings"]["random_state"] == "0"
    assert summary["seconds"] == 1.5


def test_saved_beside_the_model(summary, classifier, tmp_path):
    path = clusterica.save(classifier, tmp_path / "m.safetensors", summary=summary)
    again = clusterica.io.load_summary(path)
    assert model_page(classifier, again).html() == model_page(classifier, summary).html()


def test_all_kinds_of_image_models(digits, classifier):
    X, y = digits[0][:200], digits[1][:200]
    two = FeatureNetwork(
        [
            Layer(8, patch_size=3, pool_size=2, n_patches=500),
            Layer(6, patch_size=2, pool_size=1, fields=[[0, 1, 2], [3, 4]], n_patches=500),
        ],
        random_state=0,
    )
    regions = ImageFeatures(
        4, patch_size=3, grid=(1, 1), regions=(2, 1), n_patches=300, random_state=0
    )
    committee = Committee(
        [ImageClassifier([FeatureNetwork([Layer(8, patch_size=3, n_patches=500)])])] * 2
    )
    pipeline = make_pipeline(ImageFeatures(8, patch_size=3, n_patches=500), RidgeClassifier())
    for model, n_banks in ((two, 1), (regions, 2), (committee, 2), (pipeline, 1)):
        model.fit(X, y)
        found = summarize(model, X)
        assert len(found["banks"]) == n_banks
        assert all("kurtosis" in bank for bank in found["banks"])
        assert model_page(model, found).html().count('<section class="filter-grid"') == n_banks
    assert [row["groups"] for row in summarize(two)["layers"]] == [[1], [3, 2]]
    assert "estimated_accuracy" in summarize(committee)


def test_groups_of_channels(rng):
    """A bank of a group sees its channels only, and other than one or three of them are shown as a mean."""
    X = rng.integers(0, 256, (30, 10, 10, 6), dtype=np.uint8)
    layer = Layer(5, patch_size=3, fields=[[0, 1, 2], [1, 3, 4, 5]], n_patches=400)
    model = FeatureNetwork([layer], random_state=0).fit(X)
    first, second = summarize(model, X)["banks"]
    assert first["pixels"].shape[1:] == (3, 3, 3)
    assert second["pixels"].shape[1:] == (3, 3, 1)
    assert second["patches"].shape[2:] == (3, 3, 1)


def test_without_images_the_filters_are_known(features):
    bank = summarize(features)["banks"][0]
    assert bank["pixels"].shape == (24, 4, 4, 1)
    assert "kurtosis" not in bank
    assert "filter-grid" in model_page(features).html()


def test_a_learner_without_filters(digits):
    model = ImageFeatures(
        4,
        patch_size=3,
        n_patches=300,
        learner=SklearnKMeans(n_init=1),
        encoder="transform",
        random_state=0,
    ).fit(digits[0][:100])
    del model.filters_
    found = summarize(model, digits[0][:100])
    assert found["banks"][0]["n_filters"] == 0
    model_page(model, found).html()


def test_models_of_rows():
    X = make_sparse_sources(3000, 4, mixing="orthogonal", random_state=0).X
    ica = ClusterICA(random_state=0).fit(X)
    rows = summarize(ica, X)["rows"]
    assert np.allclose(rows["vectors"], ica.mixing_.T, atol=1e-5)
    assert rows["kurtosis"] == pytest.approx(stats.kurtosis(ica.transform(X)))
    clusters = KMeans(5, random_state=0).fit(X)
    rows = summarize(clusters, X)["rows"]
    assert np.array_equal(rows["sizes"], clusters.counts_)
    assert rows["history"] is not None
    rica = RICA(3, random_state=0).fit(Whitener().fit_transform(X))
    assert summarize(rica)["rows"]["vectors"].shape == (3, 4)
    whitener = Whitener(eps=0.5).fit(X)
    assert summarize(whitener)["rows"]["spectrum"]["eps"] == 0.5
    for model in (ica, clusters, rica, whitener, GainShapeKMeans(3, random_state=0).fit(X)):
        assert type(model).__name__ in model_page(model, summarize(model, X)).html()


def test_rows_of_a_table_and_of_a_list():
    pandas = pytest.importorskip("pandas")
    X = make_sparse_sources(1000, 3, mixing="orthogonal", random_state=0).X
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    ica = ClusterICA(random_state=0).fit(table)
    rows = summarize(ica, table)["rows"]
    assert rows["names"] == ["a", "b", "c"]
    ica = ClusterICA(random_state=0).fit(X)
    assert np.allclose(summarize(ica, X.tolist())["rows"]["kurtosis"], rows["kurtosis"])


def test_thousands_of_filters_stay_small(many_filters, tmp_path):
    model, found = many_filters
    bank = found["banks"][0]
    assert bank["pixels"].shape == (4000, 12, 12, 3)
    assert len(bank["patches_of"]) <= 400
    page = model_page(model, found).write(tmp_path / "page.html")
    assert page.stat().st_size < 10_000_000


def test_filters_that_do_not_fit_are_left_out(many_filters, monkeypatch, rng):
    monkeypatch.setattr("clusterica.report._banks.FILTER_BYTES", 100 * 432)
    model, _ = many_filters
    found = summarize(model, rng.integers(0, 256, (20, 24, 24, 3), dtype=np.uint8))
    bank = found["banks"][0]
    assert len(bank["index"]) == len(bank["pixels"]) == len(bank["histogram"]) == 100
    text = model_page(model, found).html()
    assert "Of 4,000 filters the 100 with the highest kurtosis are shown." in text


def test_the_page_escapes_what_it_is_given(classifier, summary):
    text = model_page(classifier, summary).html()
    assert "&lt;digits&gt;" in text
    assert "<digits>" not in text
    start = text.index('<script type="application/json">') + len('<script type="application/json">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert data["index"] == list(range(16))


def test_not_fitted():
    with pytest.raises(Exception, match="not fitted"):
        summarize(KMeans())
