"""K-SVD and its kin with labels: recovery as in the paper, classifiers, all kinds of rows, bad input."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import device_of, to_host
from clusterica.dictionaries import KSVD, DiscriminativeKSVD, LabelConsistentKSVD
from clusterica.dictionaries._alternate import Alternation, worst_rows
from clusterica.encoders import OMPEncoder
from clusterica.images import ImageFeatures

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")
CLASSIFIERS = [
    DiscriminativeKSVD(8),
    LabelConsistentKSVD(3),
    LabelConsistentKSVD(3, classification=0),
]


# The checks have few rows, and some far from all others.
@pytest.mark.filterwarnings("ignore:.*are used by no row")
@parametrize_with_checks(
    [
        KSVD(2),
        KSVD(),
        DiscriminativeKSVD(6, max_iter=10),
        LabelConsistentKSVD(2, max_iter=10),
        LabelConsistentKSVD(2, classification=0, max_iter=10),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X(make_few_of_many):
    return make_few_of_many(0, n_rows=300, n_atoms=12, n_features=8, n_nonzero=2)[0]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return normalize(X)[order], y[order]


@pytest.mark.parametrize("seed", [0, 1])
def test_atoms_of_the_papers_problem_are_found(make_few_of_many, recovered_share, seed):
    """50 atoms of 20 features, 1500 rows of three atoms, noise at 20 dB (Aharon et al., section V.A)."""
    X, atoms = make_few_of_many(seed)
    model = KSVD(50, n_nonzero=3, max_iter=80, tol=1e-7, random_state=0).fit(X)
    assert recovered_share(model.components_, atoms) > 0.9


def test_the_objective_is_that_of_the_codes(X):
    model = KSVD(12, n_nonzero=2, max_iter=20, random_state=0).fit(X)
    S = model.transform(X)
    assert (S != 0).sum(axis=1).max() == 2
    error = 0.5 * ((X - S @ model.components_) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(model.objective_history_[-1], rel=1e-6)
    assert len(model.objective_history_) == model.n_iter_ + 1
    assert model.objective_history_[-1] < 0.7 * model.objective_history_[0]
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    encoder = OMPEncoder(model.components_, n_nonzero=2, split_signs=False)
    np.testing.assert_allclose(S, encoder.fit_transform(X), atol=1e-12)


def test_of_atoms_that_are_alike_the_less_used_one_is_replaced():
    D = np.array([[1.0, 0, 0], [0, 1, 0], [-0.9999, 0.0141, 0], [0, 0.01, 0.9999]])
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = np.array([[0.0, 0, 3], [4, 4, 4], [1, 0, 0]])
    steps = Alternation(3, None, X, lambda X, D: np.zeros_like(X), most_alike=0.99)
    uses = np.array([3.0, 5, 8, 0])
    np.testing.assert_array_equal(steps._useless(D, uses), [True, False, False, True])
    np.testing.assert_allclose(worst_rows(X, 0 * X, 2), [[3**-0.5] * 3, [0, 0, 1]])


@pytest.mark.parametrize(
    ("model", "accuracy"),
    [
        (DiscriminativeKSVD(100, max_iter=20, random_state=0), 0.92),
        (LabelConsistentKSVD(10, max_iter=20, random_state=0), 0.92),
        (LabelConsistentKSVD(10, classification=0, max_iter=20, random_state=0), 0.9),
    ],
    ids=["D-KSVD", "LC-KSVD2", "LC-KSVD1"],
)
def test_digits_are_recognised(digits, model, accuracy):
    X, y = digits
    model.fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > accuracy
    scores = model.decision_function(X[1000:])
    assert scores.shape == (797, 10)
    np.testing.assert_allclose(scores, model.transform(X[1000:]) @ model.coef_.T, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X[1000:]), scores.argmax(axis=1))


def test_atoms_of_a_class_are_used_by_its_rows(digits):
    X, y = digits
    model = LabelConsistentKSVD(10, consistency=1.0, max_iter=10, random_state=0)
    S = np.abs(model.fit(X[:1000], y[:1000]).transform(X[1000:]))
    own = model.component_classes_ == y[1000:, None]
    assert S[own].mean() > 5 * S[~own].mean()


def test_two_classes_and_names(X):
    y = np.array(["north", "south"])[(X[:, 0] > 0).astype(int)]
    for model in CLASSIFIERS:
        model.set_params(max_iter=5, random_state=0).fit(X, y)
        scores = model.decision_function(X)
        assert scores.shape == (300,)
        names = model.predict(X)
        np.testing.assert_array_equal(names == "south", scores > 0)
        assert model.score(X, y) > 0.6


@pytest.mark.parametrize("model", [KSVD(9, n_nonzero=2), *CLASSIFIERS], ids=str)
def test_rows_of_all_kinds(X, as_kind, model):
    change, settings = as_kind
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
    model.set_params(max_iter=4, random_state=0)
    expected = model.fit(X, y).objective_history_
    with config_context(**settings):
        given = change(X)
        model.fit(given, y)
        S = to_host(model.transform(given))
        if hasattr(model, "predict"):
            assert to_host(model.predict(given)).shape == (300,)
    assert S.dtype == model.components_.dtype
    # Matching pursuit is not continuous: another rounding may choose another atom.
    np.testing.assert_allclose(model.objective_history_, expected, rtol=0.05)


@pytest.mark.parametrize("model", [KSVD(9, n_nonzero=2), *CLASSIFIERS], ids=str)
def test_array_libraries(put, X, model):
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
    model.set_params(max_iter=4, random_state=0)
    expected = model.fit(X, y).objective_history_
    given = put(X)
    S = model.fit(given, y).transform(given)
    results = [S, model.components_]
    if hasattr(model, "predict"):
        results += [model.predict(given), model.decision_function(given), model.coef_]
    for result in results:
        assert type(result) is type(given)
        assert device_of(result) == device_of(given)
    np.testing.assert_allclose(model.objective_history_, expected, rtol=0.05)


def test_features_of_images(rng):
    images = rng.integers(0, 256, size=(12, 8, 8), dtype=np.uint8)
    settings = {"n_filters": 6, "patch_size": 3, "n_patches": 200, "random_state": 0}
    for learner in (
        KSVD(n_nonzero=2, max_iter=3),
        DiscriminativeKSVD(max_iter=3),
        LabelConsistentKSVD(max_iter=3),
    ):
        model = ImageFeatures(**settings, learner=learner, encoder="transform-both-signs")
        features = model.fit(images, np.arange(12) % 2).transform(images)
        assert features.shape == (12, 2 * 6 * 4)
        assert features.any()
        assert model.filters_.shape == (6, 9)


# --- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KSVD(301), "n_components=301 must be at most the number of rows, n_samples=300"),
        (KSVD(3, n_nonzero=4), "n_nonzero=4 must be at most the number of atoms, 3"),
        (KSVD(2, init=np.zeros((2, 8))), "no row of it may be all zeros"),
        (DiscriminativeKSVD(301), "n_components=301 must be at most the number of rows"),
        (DiscriminativeKSVD(3, classification=0), "'classification' parameter"),
        (LabelConsistentKSVD(11), "class 2 has 10 rows, fewer than its 11 atoms; give more rows"),
    ],
    ids=str,
)
def test_bad_settings(X, model, message):
    y = np.repeat([0, 1, 2], [150, 140, 10])
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_bad_labels(X, model):
    with pytest.raises(ValueError, match=r"requires y to be passed.*give one label for every row"):
        model.fit(X)
    with pytest.raises(ValueError, match="X has 300 rows and y has 3 labels"):
        model.fit(X, [0, 1, 2])
    with pytest.raises(ValueError, match=r"at least two classes in y, and y has only 0\.0"):
        model.fit(X, np.zeros(300))
    y = np.array(["a", "b", None] * 100, dtype=object)
    with pytest.raises(ValueError, match="100 missing labels"):
        model.fit(X, y)


@pytest.mark.parametrize("model", [KSVD(3), *CLASSIFIERS], ids=str)
def test_bad_rows(X, model):
    y = np.arange(300) % 2
    with pytest.raises(ValueError, match=r"rows drawn at random are zero.*nothing to learn"):
        model.fit(np.zeros((300, 4)), y)
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, y)


@pytest.mark.parametrize("model", [KSVD(4), *CLASSIFIERS], ids=str)
def test_a_class_of_zeros_gives_finite_results(X, model):
    """Rows of zeros have no code, and their class no atom that a row could use."""
    y = np.arange(300) % 2
    rows = X * y[:, None]
    model.set_params(max_iter=3, random_state=0).fit(rows, y)
    assert np.isfinite(model.components_).all()
    S = model.transform(rows)
    assert np.isfinite(S).all()
    assert not S[::2].any()


def test_atoms_that_no_row_uses_are_said():
    rows = np.repeat(np.eye(3), 20, axis=0)
    with pytest.warns(UserWarning, match=r"\d+ of 20 atoms are used by no row; use fewer"):
        model = KSVD(20, n_nonzero=1, random_state=0).fit(rows)
    assert model.n_dead_ == 17


def test_few_atoms_of_many_features_need_no_argument():
    """A tenth of 50 features is more than there are atoms."""
    X, y = np.random.default_rng().normal(size=(40, 50)), np.arange(40) % 2
    for model in (KSVD(2), DiscriminativeKSVD(2), LabelConsistentKSVD(1)):
        assert model.fit(X, y).n_nonzero_ == 2
