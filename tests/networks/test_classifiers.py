"""Classifiers on networks, committees of them, and the recipes."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.utils import get_tags

import clusterica
from clusterica import config_context
from clusterica.linear import KernelRidgeClassifier, LinearSVC, probabilities
from clusterica.networks import Committee, DependencyGroups, FeatureNetwork, ImageClassifier, Layer
from clusterica.networks.recipes import RECIPES, make_classifier

torch = pytest.importorskip("torch")
DIGITS = load_digits()
X, Y = DIGITS.images[:600], DIGITS.target[:600]


def network(patch_size=3, n_filters=24, **settings):
    return FeatureNetwork([Layer(n_filters, patch_size=patch_size, n_patches=4000)], **settings)


def rbf(**settings):
    return KernelRidgeClassifier(alpha=0.1, gamma=0.002, **settings)


@pytest.mark.parametrize(
    "classifier", [None, rbf(), KernelRidgeClassifier("linear", alpha=1.0)], ids=str
)
def test_a_classifier_is_networks_and_a_classifier(classifier):
    model = ImageClassifier([network(), network(4)], classifier, random_state=0).fit(
        X[:400], Y[:400]
    )
    parts = [one.transform(X) for one in model.networks_]
    F = np.concatenate(parts, axis=1)
    plain = LinearSVC(random_state=0) if classifier is None else classifier
    plain = plain.fit(F[:400], Y[:400])
    found, expected = model.decision_function(X[400:]), plain.decision_function(F[400:])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_array_equal(model.predict(X[400:]), plain.predict(F[400:]))
    assert model.score(X[400:], Y[400:]) > 0.8


def test_networks_are_learned_from_unlabeled_images():
    model = ImageClassifier([network(random_state=1)]).fit(X[:100], Y[:100], unlabeled=X)
    expected = network(random_state=1).fit(X)
    np.testing.assert_array_equal(model.networks_[0].transform(X), expected.transform(X))


@pytest.mark.parametrize("kind", [ImageClassifier, Committee])
def test_fit_is_learn_and_fit_classifier(kind):
    """Networks can be learned once, and serve other labels."""
    one = ImageClassifier([network()], rbf(), tune={"mirror": [True, False]})
    model = (one if kind is ImageClassifier else Committee([one])).set_params(random_state=3)
    expected = model.fit(X[:200], Y[:200], unlabeled=X).decision_function(X)
    model.learn(X)
    odd = model.fit_classifier(X[:200], Y[:200] % 2).predict(X)
    assert set(odd) == {0, 1}
    found = model.fit_classifier(X[:200], Y[:200]).decision_function(X)
    np.testing.assert_array_equal(found, expected)


def test_settings_are_chosen_on_images_that_were_not_seen():
    """Mirror images of digits are other digits or none; where labels ignore mirroring they are the same."""
    tune = {"mirror": [True, False], "power": [1.0, 0.5]}
    model = ImageClassifier([network()], rbf(), tune=tune, random_state=0).fit(X, Y)
    assert model.tuned_["mirror"] is False
    assert [len(model.tuning_[name]) for name in tune] == [2, 2]
    assert model.networks_[0].mirror is False
    assert model.networks_[0].power == model.tuned_["power"]
    rng = np.random.default_rng(0)
    flipped = np.where(rng.random(len(X))[:, None, None] < 0.5, X, X[:, :, ::-1])
    model.fit(flipped, Y)
    assert model.tuned_["mirror"] is True


def test_validation_decisions():
    """Those that the fit gives, or those of a fit without every fifth image of each class."""
    model = ImageClassifier([network()], LinearSVC(C=0.1), random_state=0).fit(X[:300], Y[:300])
    is_held = np.zeros(300, dtype=bool)
    for digit in range(10):
        is_held[np.flatnonzero(Y[:300] == digit)[1::5]] = True
    F = model.networks_[0].transform(X[:300])
    plain = LinearSVC(C=0.1).fit(F[~is_held], Y[:300][~is_held])
    decisions = model.validation_decisions_
    np.testing.assert_allclose(decisions[is_held], plain.decision_function(F[is_held]), rtol=1e-5)
    assert np.isnan(decisions[~is_held]).all()
    for classifier in (rbf(), LinearSVC(random_state=0)):
        model.set_params(classifier=classifier).fit(X[:300], Y[:300])
        assert np.isfinite(model.validation_decisions_).mean() > 0.9
        again = clone(model.classifier_)
        if isinstance(classifier, LinearSVC):
            known = again.fit_validate(model.networks_[0].transform(X[:300]), Y[:300])
        else:
            known = model.classifier_.validation_decisions_
        np.testing.assert_allclose(model.validation_decisions_, known, rtol=1e-5, atol=1e-5)


def test_labels_in_turn():
    """Every fifth image of all would be all images of two classes where labels come in turn."""
    order = np.concatenate([np.flatnonzero(digit == Y)[:40] for digit in range(10)])
    order = order.reshape(10, 40).T.ravel()
    members = [ImageClassifier([network()], LinearSVC(C=0.1)), ImageClassifier([network(2)], rbf())]
    model = Committee(members, random_state=0).fit(X[order], Y[order])
    assert model.validation_accuracies_.min() > 0.7
    assert model.members_[0].validation_decisions_.shape == (400, 10)


KINDS = [
    ImageClassifier([network()], random_state=0),
    ImageClassifier([network()], rbf(), random_state=0),
    ImageClassifier([network()], LogisticRegression(C=1e3, max_iter=300), random_state=0),
    Committee([ImageClassifier([network()]), ImageClassifier([network(2)], rbf())], random_state=0),
]


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("model", KINDS, ids=["svc", "kernel", "other", "committee"])
def test_predict_proba(model, n_classes):
    """Columns follow classes_, rows add up to 1, and the log loss on new images is better than with T = 1."""
    names = np.array(["c", "b", "a", "d", "e", "f", "g", "h", "i", "j"])
    images, labels = X[n_classes > Y], names[Y[n_classes > Y]]
    n = len(images) // 2
    # A fifth of the labels are wrong, so that no classifier may be sure.
    rng = np.random.default_rng(0)
    wrong = rng.random(len(labels)) < 0.2
    labels[wrong] = rng.permutation(labels[wrong])
    model = clone(model).fit(images[:n], labels[:n])
    P, D = model.predict_proba(images[n:]), model.decision_function(images[n:])
    assert P.shape == (len(images) - n, n_classes)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(images[n:]))
    found, plain = (
        log_loss(labels[n:], p, labels=model.classes_) for p in (P, probabilities(D, 1.0))
    )
    assert found < plain
    with pytest.raises(NotFittedError):
        clone(model).predict_proba(images)


@pytest.mark.parametrize("model", KINDS, ids=["svc", "kernel", "other", "committee"])
def test_scikit_learn_conventions(model):
    """What scikit-learn checks with tables: clone, get_params, repeated fits, pickles, NotFittedError."""
    model = clone(model)
    before = repr(model.get_params())
    for method in ("predict", "decision_function", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    first = model.fit(X[:150], Y[:150].tolist()).predict_proba(X[150:200])
    assert repr(model.get_params()) == before
    again = model.fit(X[:150], Y[:150]).predict_proba(X[150:200])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X[150:200]), again
    )
    other = clone(model).fit(list(X[:150]), torch.asarray(Y[:150]))
    np.testing.assert_array_equal(other.predict_proba(X[150:200]), again)
    right = model.predict(X[150:200]) == Y[150:200]
    assert other.score(torch.asarray(X[150:200]), torch.asarray(Y[150:200])) == right.mean()
    assert is_classifier(model)
    assert not hasattr(model, "n_features_in_")
    assert not get_tags(model).input_tags.two_d_array


@pytest.mark.parametrize("model", KINDS, ids=["svc", "kernel", "other", "committee"])
def test_bad_images_and_labels(model, monkeypatch):
    model = clone(model)
    monkeypatch.setattr(FeatureNetwork, "fit", lambda *_: pytest.fail("features were learned"))
    with pytest.raises(ValueError, match="at least two classes in y, and y has only 3"):
        model.fit(X[:20], np.full(20, 3))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X[:20], np.where(np.arange(20) == 3, np.nan, Y[:20]))
    with pytest.raises(ValueError, match="X has 20 rows and y has 19 labels"):
        model.fit(X[:20], Y[:19])
    with pytest.raises(ValueError, match="shape \\(6, 8\\) and those in X have \\(8, 8\\); resize"):
        model.fit(X[:20], Y[:20], unlabeled=X[:, 1:7])
    monkeypatch.undo()
    model.fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match="resize them"):
        model.predict(X[:5, :6])
    broken = X[:100].copy()
    broken[7, 3, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, Y[:100])
    with pytest.raises(ValueError, match="NaN"):
        clone(model).fit(X[:100], Y[:100]).predict(broken)


def test_few_images_of_a_class():
    """Leave-one-out takes one image of a class; others need a class with two."""
    one_each = np.array([np.flatnonzero(digit == Y)[0] for digit in range(4)])
    assert ImageClassifier([network()], rbf()).fit(X[one_each], Y[one_each]).temperature_ > 0
    for classifier in (None, LogisticRegression()):
        with pytest.raises(ValueError, match="no class has two"):
            ImageClassifier([network()], classifier).fit(X[one_each], Y[one_each])
    two = np.concatenate([one_each, np.flatnonzero(Y == 1)[1:2]])
    for classifier in (None, LogisticRegression()):
        model = ImageClassifier([network()], classifier, random_state=0).fit(X[two], Y[two])
        assert model.predict_proba(X).shape == (600, 4)


def test_any_classifier():
    model = ImageClassifier([network()], LogisticRegression(max_iter=200), random_state=0)
    assert model.fit(X[:400], Y[:400]).score(X[400:], Y[400:]) > 0.85


def test_a_committee_adds_decisions():
    members = [ImageClassifier([network(size)], rbf()) for size in (2, 4)]
    model = Committee(members, random_state=0).fit(X[:400], Y[:400])
    assert model.weights_.sum() == pytest.approx(1)
    assert model.validation_accuracy_ >= model.validation_accuracies_.max()
    expected = sum(
        w / s * m.decision_function(X[400:])
        for w, s, m in zip(model.weights_, model.scales_, model.members_, strict=True)
    )
    np.testing.assert_allclose(model.decision_function(X[400:]), expected)
    assert model.score(X[400:], Y[400:]) > 0.8


def test_a_useless_member_gets_no_weight():
    good = ImageClassifier([network(3)], rbf())
    # Two filters, pooled over the whole image, see next to nothing.
    blind = ImageClassifier([network(2, 2, grid=(1, 1))], rbf())
    model = Committee([blind, good], random_state=0).fit(X[:400], Y[:400])
    assert model.validation_accuracies_[0] < 0.5
    assert model.weights_[0] <= 0.2


def test_two_classes():
    two = Y < 2
    model = Committee([ImageClassifier([network()]), ImageClassifier([network(2)], rbf())])
    model.fit(X[two][:80], np.array(["zero", "one"])[Y[two][:80]])
    assert model.decision_function(X[two]).shape == (two.sum(),)
    assert set(model.predict(X[two])) == {"zero", "one"}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name):
    model = make_classifier(name, X.shape[1:], n_filters=32, random_state=0).fit(X[:400], Y[:400])
    assert model.score(X[400:], Y[400:]) > 0.8


@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (32, 32, 3), (96, 96, 3)])
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_fit_the_image(rng, name, shape):
    """Every patch size and grid of a recipe fits images of its shape."""
    few = rng.integers(0, 256, size=(24, *shape)).astype(np.uint8)
    model = make_classifier(name, shape, n_filters=6, random_state=0)
    members = [model] if isinstance(model, ImageClassifier) else model.members
    for member in members:
        for one in member.networks:
            for layer in one.layers:
                layer.set_params(n_patches=400)
                if layer.fields is not None:
                    layer.set_params(n_filters=3, fields=DependencyGroups(4, n_groups=2))
    assert len(model.fit(few, np.arange(24) % 2).predict(few)) == 24


def test_tensors_and_memory():
    members = [ImageClassifier([network()], rbf()), ImageClassifier([network(2)])]
    expected = Committee(members, random_state=0).fit(X[:300], Y[:300])
    found = Committee(members, random_state=0).fit(torch.asarray(X[:300]), Y[:300])
    a, b = (m.decision_function(Z) for m, Z in ((expected, X), (found, torch.asarray(X))))
    np.testing.assert_allclose(b, a, atol=1e-2 * np.abs(a).max())
    with config_context(memory="2MiB"):
        model = ImageClassifier(
            [network()], rbf(n_landmarks="auto", random_state=0), random_state=0
        )
        assert model.fit(X[:400], Y[:400]).score(X[400:], Y[400:]) > 0.8
    assert len(model.classifier_.X_fit_) < 400


def test_saved_and_loaded(tmp_path):
    members = [ImageClassifier([network()], rbf()), ImageClassifier([network(2)])]
    model = Committee(members, random_state=0).fit(X[:300], Y[:300])
    clusterica.save(model, tmp_path / "model.safetensors")
    again = clusterica.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ImageClassifier([]), "networks must be one FeatureNetwork or more"),
        (ImageClassifier([Layer(8)]), "networks must be one FeatureNetwork or more"),
        (ImageClassifier([network()], tune={"layers": [1]}), "some of grid, mirror, output, power"),
        (ImageClassifier([network()], tune={"mirror": []}), "must have a list of values"),
        (ImageClassifier([network()], KNeighborsClassifier()), "has no decision_function"),
        (ImageClassifier([network()], SVC(decision_function_shape="ovo")), "for each class"),
        (Committee([]), "members must be one ImageClassifier or more"),
    ],
    ids=str,
)
def test_wrong_parts_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)


def test_best_with_few_filters_has_as_many_groups_as_maps():
    member = make_classifier("best", (32, 32, 3), n_filters=10).members[1]
    first, second = member.networks[0].layers
    assert second.fields.n_groups == first.n_maps_out(3) == 20
    second.check_fields(20)


def test_wrong_recipes_are_refused():
    with pytest.raises(ValueError, match="the recipes are fast, accurate, best"):
        make_classifier("fastest")
    for shape in ((3, 8), (8,)):
        with pytest.raises(ValueError, match="at least 4 x 4 pixels"):
            make_classifier("fast", shape)
    with pytest.raises(ValueError, match="n_filters=0 must be at least 1"):
        make_classifier("fast", n_filters=0)
