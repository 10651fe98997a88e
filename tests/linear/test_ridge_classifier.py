"""RidgeClassifier is scikit-learn's RidgeClassifier after a StandardScaler."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier as ScikitLearnRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica.linear import RidgeClassifier
from clusterica.linear._lbfgs import SampledGram


@pytest.mark.parametrize("alpha", [1e-2, 3.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_same_as_scikit_learn(request, shape, n_classes, alpha):
    X, y = request.getfixturevalue(shape)
    y = y % n_classes
    ours = RidgeClassifier(alpha=alpha).fit(X, y)
    theirs = make_pipeline(StandardScaler(), ScikitLearnRidge(alpha=alpha)).fit(X, y)
    assert ours.converged_
    assert ours.n_iter_ <= 2
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-8, atol=1e-8
    )
    weights = np.atleast_2d(theirs[-1].coef_ / theirs[0].scale_)
    np.testing.assert_allclose(ours.coef_, weights, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("intercept", [True, False])
def test_without_standardising(tall, intercept):
    X, y = tall
    ours = RidgeClassifier(alpha=2.0, standardize=False, fit_intercept=intercept).fit(X, y)
    theirs = ScikitLearnRidge(alpha=2.0, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_weights_are_those_of_scikit_learn(request, rng, shape):
    X, y = request.getfixturevalue(shape)
    weights = rng.uniform(0.1, 2, size=len(X))
    ours = RidgeClassifier(alpha=2.0, standardize=False, tol=1e-13).fit(X, y, sample_weight=weights)
    theirs = ScikitLearnRidge(alpha=2.0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_a_sampled_preconditioner_gives_the_same(tall, monkeypatch):
    """With a Gram matrix of half the rows it takes more steps to the same weights."""
    X, y = tall
    exact = RidgeClassifier(alpha=2.0, tol=1e-14).fit(X, y)
    monkeypatch.setattr("clusterica.linear._lbfgs.SampledGram", partial(SampledGram, fewest=200))
    sampled = RidgeClassifier(alpha=2.0, tol=1e-14).fit(X, y)
    assert exact.n_iter_ == 1 < sampled.n_iter_ < 30
    np.testing.assert_allclose(sampled.coef_, exact.coef_, atol=1e-6)


def test_penalty_chosen_on_held_out_rows(tall):
    X, y = tall
    model = RidgeClassifier(random_state=0, tol=1e-12).fit(X, y)
    path, scores = model.alpha_path_, model.validation_scores_
    assert (np.diff(path) > 0).all()
    best = path[scores == scores.max()]
    assert best.min() / 10**0.5 <= model.alpha_ <= best.max() * 10**0.5
    given = RidgeClassifier(alpha=model.alpha_, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, given.coef_, atol=1e-5)
    assert given.alpha_path_ is None
    assert given.validation_scores_ is None
