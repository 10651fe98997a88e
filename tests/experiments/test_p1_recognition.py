"""Recognition of images: the quick versions on digits learn, choose their settings, and write their files."""

import json

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import clusterica
from clusterica.datasets import load_digits_images
from clusterica.experiments import run
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Labeled,
    Split,
    choose_constants,
    cifar10,
    encode_training,
    evaluate,
    label_subsets,
    percent,
    rows_of,
    stl10,
)
from clusterica.experiments.coates_ng_2012._methods import recipe_row, take_numbers
from clusterica.experiments.coates_ng_2012.params import GaussianFilters, _validation_split
from clusterica.images import ImageFeatures
from clusterica.linear import KernelRidgeClassifier, LinearSVC
from clusterica.networks import Committee, FeatureNetwork, ImageClassifier, Layer

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Keep the many products of small matrices from waiting for a second thread."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A function that runs an experiment once and checks what its file says."""
    found = {}

    def one(name):
        if name not in found:
            outcome = run(name, quick=True, output=tmp_path_factory.mktemp(name))
            record = json.loads(outcome.json_path.read_text(encoding="utf-8"))
            assert record["settings"]["data"] == "digits of scikit-learn"
            assert len(record["rows"]) == len(outcome.result.rows)
            assert {len(row) for row in record["rows"]} == {len(record["columns"])}
            found[name] = outcome
        return found[name]

    return one


# --- Tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("committee", [False, True])
def test_images_by_number_have_the_features_of_the_images(committee):
    """Features of all images are computed once, and classifiers of folds are the same as without that."""
    digits = load_digits_images()
    images, labels = digits.images[:400], digits.labels[:400]
    network = FeatureNetwork([Layer(20, patch_size=3, n_patches=2000)])
    tune = {"mirror": [True, False], "grid": [(2, 2), (3, 3)]}
    classifier = KernelRidgeClassifier(random_state=0)
    model = ImageClassifier([network], classifier, tune=tune, random_state=0)
    model = (Committee([model], random_state=0) if committee else model).learn(images)
    folds = [np.arange(200), np.arange(150, 350)]

    def splits(images):
        for fold in folds:
            outside = np.setdiff1d(np.arange(400), fold)
            known, rest = (Labeled(rows_of(images, i), labels[i]) for i in (fold, outside))
            yield Split(known, rest, "a fold")

    expected = recipe_row(model, splits(images))
    take_numbers(model, images)
    assert recipe_row(model, splits(np.arange(400))) == expected


def rows_of_table(outcome):
    """Return what is kept of every row, by name."""
    parts = json.loads(outcome.json_path.read_text(encoding="utf-8"))["parts"]
    assert set(parts.pop("constants")["value"]) >= {"chosen", "validation"}
    return {name: part["value"] for name, part in parts.items()}


def test_table_1(reproduced):
    outcome = reproduced("P1-table1")
    found = rows_of_table(outcome)
    layers = ["1 layer, 40 maps", "1 layer, 120 maps", "2 layers, learned fields"]
    assert list(found) == [*layers, "Recipe “accurate”"]
    for value in found.values():
        assert value["accuracy"] > 0.95
    for name in layers:
        value = found[name]
        assert value["neighbors"] > 0.9
        assert value["C"] > 0
        assert min(value["learn_seconds"], value["encode_seconds"], value["classifier_seconds"]) > 0
    assert [found[name]["last"] is None for name in layers] == [True, True, False]
    assert found["2 layers, learned fields"]["last"] > 0.9
    printed = [row[2] for row in outcome.result.rows[:4]]
    assert printed == [f"{100 * value['accuracy']:.1f}" for value in found.values()]
    assert outcome.result.checks == ()  # digits are not compared with the paper's figures


@pytest.mark.slow
def test_table_2_averages_over_draws_of_labels(reproduced):
    outcome = reproduced("P1-table2")
    for value in rows_of_table(outcome).values():
        assert len(value["accuracies"]) == 3
        assert len(set(value["accuracies"])) > 1
        assert np.mean(value["accuracies"]) > 0.85
    assert " ± " in outcome.result.rows[0][2]


@pytest.mark.slow
def test_table_3_saves_the_models_it_scored(reproduced):
    outcome = reproduced("P1-table3")
    folder = outcome.json_path.parent
    train, folds, _ = stl10(Context(quick=True))
    assert {path.name for path in folder.glob("*.safetensors")} == {
        f"P1-table3-{which}.safetensors" for which in ("all", "fold0", "fold1", "fold2")
    }
    row = outcome.parts["1 layer, 40 maps"]
    models = row["models"]
    assert models[-1] == "P1-table3-all.safetensors"
    assert outcome.parts["1 layer, 120 maps"]["models"] == []
    for i, accuracy in enumerate(row["accuracies"]):
        assert accuracy > 0.9
        assert models[i] == f"P1-table3-fold{i}.safetensors"
        model = clusterica.load(folder / models[i])
        outside = np.setdiff1d(np.arange(len(train.labels)), folds[i])
        score = model.score(train.images[outside], train.labels[outside])
        np.testing.assert_allclose(score, accuracy, atol=0.002)


def test_recipes_by_name(reproduced):
    outcome = reproduced("P1-recipes")
    assert list(outcome.parts) == ["CIFAR-10, fast", "CIFAR-10, accurate"]
    for row, found in zip(outcome.result.rows, outcome.parts.values(), strict=True):
        assert found["images"] == "digits of scikit-learn"
        assert found["accuracy"] > 0.95
        assert min(found["learn_seconds"], found["encode_seconds"]) > 0
        assert row[3] == f"{100 * found['accuracy']:.2f}"
        # Linux says how much memory was used, other systems leave the cell empty.
        assert row[6] == ("" if found["gib"] is None else f"{found['gib']:.1f}")
        assert found["gib"] is None or 0.05 < found["gib"] < 10


# --- Settings of the pipeline ----------------------------------------------------------------------


@pytest.mark.slow
def test_more_filters_and_better_codes_help(reproduced):
    outcome = reproduced("P1-params")
    found = outcome.result.values["accuracies"]
    (default,) = found["default"].values()
    assert default > 0.9
    assert found["filters"]["8"] < default < found["filters"]["128"] + 0.02  # conclusion 8
    encoders = found["encoder"]
    for poor in ("hard, equation (1)", "hard, nearest of KMeans", "sigmoid"):  # section 4.2
        assert encoders[poor] < min(default, encoders["triangle of KMeans"])
    assert found["whitening ε"]["no whitening"] < default


@pytest.mark.slow
def test_encoders_matter_more_than_learners(reproduced):
    outcome = reproduced("P1-params")
    spans = outcome.result.values["spans"]
    assert spans["encoder"] > 2 * spans["learner"]  # conclusion 7
    (picture,) = outcome.picture_paths
    assert picture.stat().st_size > 10_000


def test_validation_images_are_training_images():
    ctx = Context(quick=True)
    split, everything = _validation_split(ctx), cifar10(ctx)

    def rows(images):
        return {image.tobytes() for image in images}

    train, held_out, test = (
        rows(part.images) for part in (split.train, split.test, everything.test)
    )
    assert train | held_out <= rows(everything.train.images)
    assert not train & held_out
    # A few digits are drawn alike; a test set in the place of one of these would share all.
    assert len(held_out & test) < 5


def test_gaussian_filters_have_unit_length():
    X = np.ones((7, 5))
    first, second = (GaussianFilters(3, random_state=0).fit(X).components_ for _ in range(2))
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1)
    np.testing.assert_array_equal(first, second)
    images = load_digits_images().images[:50]
    features = ImageFeatures(6, patch_size=4, learner=GaussianFilters(), random_state=0).fit(images)
    assert features.filters_.shape == (6, 16)


# --- Encoders over the number of labels ------------------------------------------------------------


@pytest.mark.slow
def test_encoders_come_closer_with_more_labels(reproduced):
    outcome = reproduced("P1-fig6")
    curves = outcome.result.values["accuracies"]
    sparse, soft = (
        np.array([np.mean(draws) for draws in curves[name]])
        for name in ("sparse coding", "soft threshold")
    )
    for curve in (sparse, soft):
        assert (np.diff(curve) > 0).all()
        assert curve[-1] > 0.95
    assert abs(sparse[-1] - soft[-1]) < 0.02
    assert [len(draws) for draws in curves["sparse coding"]] == [3, 3, 3, 3]
    assert outcome.picture_paths[0].stat().st_size > 10_000


# --- Mirror images ---------------------------------------------------------------------------------


def test_an_image_and_its_mirror_image_are_held_out_together():
    found = load_digits_images()
    parts = [Labeled(found.images[i], found.labels[i]) for i in (slice(99), slice(99, 300))]
    classifier = LinearSVC(random_state=0)
    features = ImageFeatures(8, patch_size=4, n_patches=2000, random_state=0)
    outcome = evaluate(features, Split(*parts, "digits"), classifier=classifier, mirrored=True)
    images, twins = np.split(classifier.validation, 2)
    np.testing.assert_array_equal(images, twins)
    assert images.sum() == 99 // 5
    assert 0.5 < outcome.accuracy < 1
    assert outcome.classifier_passes == classifier.n_passes_
    X, y = encode_training(features, parts[0], mirrored=True)
    np.testing.assert_array_equal(X[99:], features.transform(parts[0].images[:, :, ::-1]))
    np.testing.assert_array_equal(y[99:], parts[0].labels)


# --- Constants -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("best", "whitening"), [(10.0, 0.1), (300.0, 1.0), (10_000.0, 0.3)])
def test_constants_are_raised_while_that_helps(best, whitening):
    def score(constants):
        return -abs(np.log(constants.contrast / best)) - abs(
            np.log(constants.whitening / whitening)
        )

    chosen, scores = choose_constants(score)
    assert chosen == (best, whitening)
    assert max(scores.values()) == 0


# --- Helpers ---------------------------------------------------------------------------------------


def test_subsets_have_so_many_labels_of_each_class():
    labels = np.random.default_rng().integers(4, size=200)
    subsets = label_subsets(labels, 7, 3, seed=0)
    assert len(subsets) == 3
    for subset in subsets:
        assert (np.diff(subset) > 0).all()
        np.testing.assert_array_equal(np.bincount(labels[subset]), [7] * 4)
    assert not np.array_equal(subsets[0], subsets[1])


def test_rows_of_tensors(put):
    X = np.arange(12.0).reshape(6, 2)
    picked = rows_of(put(X), np.array([4, 1]))
    np.testing.assert_array_equal(clusterica.arrays.to_host(picked), X[[4, 1]])


def test_percent():
    assert percent([0.7834]) == "78.3"
    assert percent([0.5, 0.6]) == "55.0 ± 7.1"
