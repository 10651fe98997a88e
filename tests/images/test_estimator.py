"""The checks of scikit-learn, by hand: its own are written for tables."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from clusterica.cluster import GainShapeKMeans, KMeans
from clusterica.encoders import SoftThresholdEncoder
from clusterica.images import ImageFeatures


def model(**settings):
    return ImageFeatures(5, **{"patch_size": 3, "n_patches": 200, "random_state": 0, **settings})


SETTINGS = [
    {},
    {"regions": (1, 2)},
    {"learner": "patches", "encoder": "omp"},
    {"learner": KMeans(max_iter=2), "encoder": "triangle", "grid": [(1, 1), (2, 2)]},
    {"learner": KMeans(max_iter=2), "encoder": "transform", "whitener": None},
]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def test_parameters_are_kept_as_they_are():
    learner, encoder, grid = GainShapeKMeans(), SoftThresholdEncoder(), [(1, 1), (2, 2)]
    estimator = ImageFeatures(learner=learner, encoder=encoder, grid=grid)
    assert estimator.learner is learner
    assert estimator.encoder is encoder
    assert estimator.grid is grid
    estimator.set_params(learner__max_iter=7, encoder__alpha=0.5)
    assert (learner.max_iter, encoder.alpha) == (7, 0.5)


@every_setting
def test_fit_leaves_parameters_alone_and_sets_only_what_ends_in_an_underscore(images, settings):
    estimator = model(**settings)
    before = {name: repr(value) for name, value in estimator.get_params().items()}
    names = set(vars(estimator))
    assert estimator.fit(images) is estimator
    assert {name: repr(value) for name, value in estimator.get_params().items()} == before
    assert all(name.endswith("_") for name in set(vars(estimator)) - names)


@every_setting
def test_clones_and_repeated_fits_give_the_same(images, settings):
    estimator = model(**settings)
    first = estimator.fit(images).transform(images)
    np.testing.assert_array_equal(estimator.fit_transform(images), first)
    np.testing.assert_array_equal(clone(estimator).fit_transform(images), first)
    copied = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(copied.transform(images), first)


def test_a_second_fit_forgets_the_first(images):
    estimator = model(regions=(2, 1), grid=(1, 1)).fit(images)
    estimator.set_params(regions=(1, 1)).fit(images[..., 0])
    assert estimator.n_channels_in_ == 1
    assert estimator.filters_.shape == (5, 9)
    expected = model(grid=(1, 1)).fit_transform(images[..., 0])
    np.testing.assert_array_equal(estimator.transform(images[..., 0]), expected)


def test_seeds(images):
    one, two = (model(random_state=seed).fit(images).filters_ for seed in (0, 1))
    assert not np.allclose(one, two)
    model(random_state=None).fit(images)
    model(random_state=np.random.default_rng(0)).fit(images)
    given = model(learner=GainShapeKMeans(random_state=5)).fit(images)
    assert given.learner_.random_state == 5


def test_not_fitted(images):
    for call in (model().transform, model().score, model().stages):
        with pytest.raises(NotFittedError):
            call(images)
    with pytest.raises(NotFittedError):
        model().pixel_filters_


@every_setting
def test_rows_do_not_depend_on_each_other(images, settings):
    estimator = model(**settings).fit(images)
    together = estimator.transform(images)
    one_by_one = np.concatenate([estimator.transform(images[i : i + 1]) for i in range(12)])
    np.testing.assert_allclose(one_by_one, together, rtol=1e-5, atol=1e-5)
    order = np.random.default_rng(0).permutation(12)
    np.testing.assert_allclose(
        estimator.transform(images[order]), together[order], rtol=1e-5, atol=1e-5
    )


def test_input_is_left_alone(images):
    X = images / 255
    before = X.copy()
    model().fit(X).transform(X)
    np.testing.assert_array_equal(X, before)
    X.flags.writeable = False
    model().fit(X).transform(X)


def test_names_and_output(images):
    estimator = model().fit(images)
    names = estimator.get_feature_names_out()
    assert len(names) == estimator.n_features_out_ == 4 * 10
    assert names[0] == "imagefeatures0"
    table = estimator.set_output(transform="pandas").transform(images)
    assert list(table.columns) == list(names)
    np.testing.assert_array_equal(
        table.to_numpy(), estimator.set_output(transform="default").transform(images)
    )


def test_tags():
    tags = get_tags(model())
    assert not tags.input_tags.two_d_array
    assert not tags.target_tags.required


def test_in_a_pipeline_with_labels(images):
    y = np.arange(12) % 2
    bright = images.copy()
    bright[y == 1] = bright[y == 1].transpose(0, 1, 2, 3)[:, :, ::-1] // 2
    pipeline = make_pipeline(model(), LogisticRegression(max_iter=2000))
    assert pipeline.fit(bright, y).score(bright, y) == 1
    assert pipeline[:-1].get_feature_names_out()[0] == "imagefeatures0"


def test_settings_can_be_chosen_by_score(images):
    search = GridSearchCV(model(), {"n_filters": [2, 8]}, cv=2).fit(images)
    assert search.best_params_ == {"n_filters": 8}
    assert search.best_score_ < 0


def test_callbacks_of_the_learner_hear_its_iterations(images):
    class Counts:
        n = 0

        def setup(self, estimator, context):
            pass

        teardown = on_fit_task_begin = setup

        def on_fit_task_end(self, estimator, context):
            Counts.n += context.task_name == "iteration"

    estimator = model(learner=GainShapeKMeans(max_iter=3).set_callbacks(Counts())).fit(images)
    assert Counts.n == estimator.learner_.n_iter_ > 0


def test_progress_reaches_the_learner(images, bar):
    model(regions=(1, 2)).set_callbacks(bar).fit(images)
    assert bar.count("GainShapeKMeans", "iteration") > 2
    assert bar.count("GainShapeKMeans", "fit") == 2
    assert (bar.owners[-1], bar.names[-1]) == ("ImageFeatures", "fit")
