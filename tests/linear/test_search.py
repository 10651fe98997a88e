"""The choice of the strength: rows held out of every class, and a climb that finds the top."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.linear import LinearSVC
from clusterica.linear._held_out import StrengthSearch, climb, held_out


@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    share=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_held_out_rows(counts, share, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    weights = np.ones(len(codes))
    weights[rng.random(len(codes)) < 0.2] = 0
    folds = held_out(codes, weights, share, rng)
    for out in folds:
        for code in range(len(counts)):
            members = (codes == code) & (weights > 0)
            n, n_out = members.sum(), out[members].sum()
            assert n_out <= max(0, n - 1)
            assert n < 2 or n_out >= 1
            assert abs(n_out - share * n) <= 1
        assert not out[weights == 0].any()
    assert bool(folds) == any(np.bincount(codes[weights > 0]) > 1)


@pytest.mark.parametrize(
    ("n", "n_folds"), [(100, 5), (10_000, 5), (20_000, 3), (50_000, 1), (10**6, 1)]
)
def test_folds_until_enough_rows_are_held_out(n, n_folds, rng):
    codes = np.arange(n) % 4
    folds = held_out(codes, np.ones(n), 0.2, rng)
    assert len(folds) == n_folds
    np.testing.assert_array_equal([out.sum() for out in folds], n // 5)
    assert np.sum(folds, axis=0).max() == 1


def each(score):
    """Return a function of many steps."""
    return lambda steps: [score(step) for step in steps]


@pytest.mark.parametrize("at_once", [2, 4, 5])
@pytest.mark.parametrize("top", [-12, -7, 0, 1, 5, 12])
def test_climb_by_several_steps(at_once, top):
    asked = []

    def scores(steps):
        asked.append(steps)
        return [0.9 - 0.02 * abs(step - top) for step in steps]

    search = climb(scores, n_rows=1000, at_once=at_once)
    assert search.best == top
    assert max(map(len, asked)) <= at_once
    np.testing.assert_array_equal(search.steps, sorted(step for steps in asked for step in steps))
    assert -12 <= search.steps[0] <= max(top - 2, -12)
    assert min(top + 2, 12) <= search.steps[-1] <= 12


@pytest.mark.parametrize("first", [-5, -2, 3])
def test_climb_begins_at_the_given_step(first):
    asked = []

    def scores(steps):
        asked.extend(steps)
        return [0.9 - 0.02 * abs(step + 1) for step in steps]

    assert climb(scores, n_rows=1000, first=first).best == -1
    assert asked[0] == first


@given(top=st.integers(-10, 10), slope=st.floats(0.1, 10))
def test_climb_finds_the_top(top, slope):
    tried = []

    def score(step):
        tried.append(step)
        return -slope * abs(step - top)

    search = climb(each(score), n_rows=1000)
    assert search.best == top
    assert len(tried) == len(set(tried)) <= abs(top) + 5
    np.testing.assert_array_equal(search.steps, sorted(tried))
    np.testing.assert_allclose(search.scores, -slope * abs(search.steps - top))
    assert search.steps[0] < top < search.steps[-1]
    assert search.top == pytest.approx(top, abs=0.5)


def test_climb_over_a_dip():
    scores = {0: 0.5, 1: 0.4, 2: 0.6, 3: 0.5, 4: 0.5}
    assert climb(each(scores.__getitem__), n_rows=10_000).best == 2


def test_climb_looks_below_after_a_rise_by_chance():
    scores = {-5: 0.51, -4: 0.52, -3: 0.54, -2: 0.53, -1: 0.53, 0: 0.50, 1: 0.51, 2: 0.5, 3: 0.49}
    search = climb(each(scores.__getitem__), n_rows=10_000)
    assert search.best == -3
    np.testing.assert_array_equal(search.steps, sorted(scores))


def test_climb_on_level_ground_stays():
    search = climb(each(lambda step: 1.0), n_rows=10)
    assert search.best == 0
    np.testing.assert_array_equal(search.steps, [-2, -1, 0, 1, 2])


def test_climb_goes_down_over_a_level_stretch():
    """Where a strong loss tells all rows apart scores are level; the best strength may lie far below."""
    tried = []

    def score(step):
        tried.append(step)
        return 0.24 if step > -3 else 0.29 - 0.02 * abs(step + 6)

    assert climb(each(score), n_rows=1000).best == -6
    assert max(tried) == 2
    assert min(tried) == -8


@pytest.mark.parametrize("top", [-3.4, -0.7, 0.0, 0.3, 2.6])
def test_top_of_a_parabola(top):
    search = climb(each(lambda step: 0.8 - 0.01 * (step - top) ** 2), n_rows=10_000)
    assert search.top == pytest.approx(top)


def test_top_is_near_the_best():
    steps = np.arange(5)
    assert StrengthSearch(2, steps, np.array([0.0, 0.1, 0.9, 0.89, 0.88])).top == 3
    assert StrengthSearch(4, steps, np.array([0.1, 0.2, 0.4, 0.55, 0.66])).top == 5
    assert StrengthSearch(2, steps, np.array([0.9, 0.5, 1.0, 0.5, 0.9])).top == 2  # no top there
    assert StrengthSearch(0, np.arange(2), np.array([0.9, 0.8])).top == 0
    assert StrengthSearch(0, np.arange(3), np.array([0.9, 0.8, -np.inf])).top == 0


def test_climb_ends_in_the_end():
    assert climb(each(float), n_rows=100).best == 12
    assert climb(each(lambda step: -float(step)), n_rows=100).best == -12


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_strength_chosen_on_held_out_rows(request, shape):
    X, y = request.getfixturevalue(shape)
    model = LinearSVC(random_state=0).fit(X, y)
    path, scores = model.C_path_, model.validation_scores_
    np.testing.assert_allclose(np.diff(np.log10(path)), 0.5)
    assert np.isclose(path * len(X), 10).any()
    best = path[scores.argmax()]
    assert best / 10**0.5 <= model.C_ <= best * 10**0.5
    # The final fit is on all rows.
    given_C = LinearSVC(C=model.C_).fit(X, y)
    np.testing.assert_allclose(model.coef_, given_C.coef_, atol=5e-3)
    assert given_C.C_path_ is None
    assert pytest.approx(model.C_) == given_C.C_


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_scores_are_those_of_fits_to_the_rows_kept(request, shape):
    X, y = request.getfixturevalue(shape)
    model = LinearSVC(random_state=5, standardize=False).fit(X, y)
    folds = held_out(y, np.ones(len(y)), 0.2, np.random.default_rng(5))
    for C, score in zip(model.C_path_, model.validation_scores_, strict=True):
        hits = 0
        for out in folds:
            more = len(y) / np.count_nonzero(
                ~out
            )  # so that fewer rows have the same part in the objective
            kept = LinearSVC(C=C * more, standardize=False).fit(X[~out], y[~out])
            hits += (kept.predict(X[out]) == y[out]).sum()
        assert hits / len(y) == pytest.approx(score, abs=0.01)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_rows_to_hold_out_are_given(request, shape, rng):
    X, y = request.getfixturevalue(shape)
    out = rng.random(len(y)) < 0.3
    model = LinearSVC(validation=out, standardize=False).fit(X, y)
    for C, score in zip(model.C_path_, model.validation_scores_, strict=True):
        kept = LinearSVC(C=C * len(y) / np.count_nonzero(~out), standardize=False).fit(
            X[~out], y[~out]
        )
        assert kept.score(X[out], y[out]) == pytest.approx(score, abs=0.03)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_weights_are_repeated_rows_where_the_same_are_held_out(request, rng, shape):
    X, y = request.getfixturevalue(shape)
    weights = rng.integers(0, 4, size=len(y))
    out = rng.random(len(y)) < 0.3
    weighted = LinearSVC(validation=out).fit(X, y, sample_weight=weights)
    X_repeated, y_repeated, out_repeated = (v.repeat(weights, axis=0) for v in (X, y, out))
    repeated = LinearSVC(validation=out_repeated).fit(X_repeated, y_repeated)
    common = np.intersect1d(
        np.round(2 * np.log10(weighted.C_path_), 3), np.round(2 * np.log10(repeated.C_path_), 3)
    )
    assert len(common) >= 5  # a row near the border may make the search end a step later
    # The top of a parabola through scores of some 100 rows: a row more or less moves it by part of a step.
    assert abs(np.log10(repeated.C_ / weighted.C_)) < 0.5
    np.testing.assert_allclose(
        weighted.validation_scores_.max(), repeated.validation_scores_.max(), atol=0.03
    )
    given = [
        LinearSVC(C=weighted.C_, tol=1e-12).fit(X, y, sample_weight=weights),
        LinearSVC(C=weighted.C_, tol=1e-12).fit(X_repeated, y_repeated),
    ]
    np.testing.assert_allclose(given[0].coef_, given[1].coef_, atol=1e-5)


def test_copies_on_both_sides_mislead_and_can_be_held_out_together(rng):
    """Every row twice, labels of noise: what is fitted to one copy seems to hold for the other."""
    X, y = rng.normal(size=(100, 80)), rng.integers(2, size=100)
    twice, labels = np.tile(X, (2, 1)), np.tile(y, 2)
    misled = LinearSVC(random_state=0).fit(twice, labels)
    together = LinearSVC(validation=np.tile(np.arange(100) < 30, 2)).fit(twice, labels)
    assert misled.validation_scores_.max() > 0.8 > together.validation_scores_.max()


def test_strength_is_a_good_one_on_fresh_rows(rng):
    """Ten directions matter and the labels are noisy: a strong loss fits noise with all the others."""
    X = rng.normal(size=(3000, 100)) * np.geomspace(1, 0.05, 100)
    y = (X[:, :10].sum(axis=1) + rng.normal(size=3000) > 0).astype(int)
    fresh, labels = X[300:], y[300:]
    score = LinearSVC(random_state=0).fit(X[:300], y[:300]).score(fresh, labels)
    weak, strong = (
        LinearSVC(C=C).fit(X[:300], y[:300]).score(fresh, labels) for C in (1e-5, 300.0)
    )
    assert score > strong + 0.02
    assert score > weak + 0.005


def test_a_class_of_one_row_is_kept(rng):
    X = rng.normal(size=(21, 3))
    y = np.repeat([0, 1, 2], [10, 10, 1])
    model = LinearSVC(random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 3)


def test_nothing_to_hold_out():
    with pytest.raises(ValueError, match=r"no class has two rows.*a number in place of 'auto'"):
        LinearSVC().fit(np.eye(3), [0, 1, 2])
    assert LinearSVC(C=1.0).fit(np.eye(3), [0, 1, 2]).score(np.eye(3), [0, 1, 2]) == 1
