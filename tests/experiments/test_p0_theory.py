"""What P0 says of axes and centroids holds in the quick versions of its figure 1, laws and theory."""

import json

import numpy as np
import pytest
from scipy import stats

from clusterica.experiments import run
from clusterica.experiments._bands import Band, band
from clusterica.experiments.vinnikov_shalev_shwartz_2014.fig1 import fit
from clusterica.experiments.vinnikov_shalev_shwartz_2014.theory import draw_u_lap, objective

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def figure_1(tmp_path_factory):
    return run("P0-fig1", quick=True, output=tmp_path_factory.mktemp("fig1"))


@pytest.fixture(scope="module")
def laws(tmp_path_factory):
    return run("P0-dists", quick=True, output=tmp_path_factory.mktemp("dists"))


@pytest.fixture(scope="module")
def theory(tmp_path_factory):
    return run("P0-theory", quick=True, output=tmp_path_factory.mktemp("theory"))


def test_four_centroids_of_laplace_rows_lie_on_the_axes(figure_1):
    values = figure_1.result.values
    kmeans, cosine = (
        [np.median(values[name][str(m)]) for m in (1_000, 10_000, 100_000)]
        for name in ("kmeans", "cosine")
    )
    assert kmeans[0] > kmeans[1] > kmeans[2]
    assert cosine[0] > cosine[1] > cosine[2]
    assert kmeans[2] < 0.02
    assert cosine[2] < 0.01


def test_the_four_are_not_equally_long(figure_1):
    values = figure_1.result.values
    lengths = np.sort(values["lengths"])
    assert lengths[2:].min() > 1.3 > 1.1 > lengths[:2].max()
    # Symmetric ones at r = E max |s_j| = 1.5 / √2 leave E |s|² - r² = 2 - 9/8.
    assert values["mean_squared_error"] < 0.87 < 2 - 9 / 8


def test_the_printed_figures_stand_beside_ours(figure_1):
    printed = {(row[0], row[1]): row[2] for row in figure_1.result.rows}
    assert printed["K-means", "100,000"] == "0.0063"
    assert printed["cosine K-means", "10,000"] == "0.0131"
    assert printed["K-means", "1,000"] == "—"


@pytest.mark.parametrize("law", ["laplace", "hypsecant", "logistic", "t5"])
def test_sparse_laws_pull_centroids_to_the_axes(laws, law):
    for distances in laws.result.values[law].values():
        assert all(max(distances[name]) < 0.25 for name in ("kmeans", "cosine", "directions"))
        assert np.median(distances["cosine"]) < 0.13


def test_only_far_rows_break_k_means(laws):
    for distances in laws.result.values["cauchy"].values():
        assert np.median(distances["kmeans"]) > 0.4
        assert max(distances["cosine"]) < 0.04
        assert max(distances["directions"]) < 0.08


def test_nothing_to_find_without_tails(laws):
    values = laws.result.values
    for name in ("kmeans", "cosine", "directions"):
        # In the plane the corners of the square attract, and the diagonal is 0.707 from the axes.
        assert np.allclose(values["uniform"]["d2_m10000"][name], np.sqrt(0.5), atol=0.03)
        assert min(values["uniform"]["d10_m10000"][name]) > 0.4
        assert min(values["gaussian"]["d10_m10000"][name]) > 0.4


def test_lemma_2(theory):
    values = theory.result.values["lemma_2"]
    assert values["best_angles"] == [0, 90]
    assert values["best_objective"] == pytest.approx(0.75, abs=1e-5)
    assert values["next_objective"] < values["best_objective"]


def test_lemma_3(theory):
    for values in theory.result.values["lemma_3"].values():
        assert values["ratio_over_theory"] == pytest.approx(1, abs=0.02)
        assert values["relative_spread_of_ratio"] < 0.1 * values["relative_spread_of_objective"]


def test_conjecture_1(theory):
    for values in theory.result.values["conjecture"].values():
        assert values["axes_on_fresh_rows"] == pytest.approx(values["axes_in_theory"], rel=0.01)
        assert values["starts_at_the_axes"] == values["starts"]
        assert values["best_distance"] < 0.06
        assert -0.002 < values["best_gain_over_axes"] < 2 * values["best_gain_error"]
        assert values["largest_gain_around_the_axes"] < 1e-4


def test_section_7(theory):
    values = theory.result.values["section_7"]
    for d in (5, 10, 20):
        unit, plain = values[f"d{d}_unit"], values[f"d{d}_plain"]
        assert unit["signed_sources_found"] == 2 * d
        assert unit["codes_median"] > max(plain["codes_median"], 0.94)
        assert unit["distances_median"] > 0.98 > plain["distances_median"]
        assert unit["codes_with_source_before_scaling_median"] < unit["codes_median"]
        assert plain["codes_with_source_before_scaling_median"] == plain["codes_median"]


def test_files(figure_1, laws, theory):
    for outcome, n_pictures in ((figure_1, 1), (laws, 1), (theory, 4)):
        record = json.loads(outcome.json_path.read_text(encoding="utf-8"))
        assert record["values"].keys() == outcome.result.values.keys()
        assert len(outcome.picture_paths) == n_pictures
        assert all(path.stat().st_size > 10_000 for path in outcome.picture_paths)


def test_draws_follow_the_seed():
    first, again, other = (fit("kmeans", 500, [seed, 0]) for seed in (0, 0, 1))
    assert np.array_equal(first.model.cluster_centers_, again.model.cluster_centers_)
    assert not np.array_equal(first.S, other.S)
    assert np.array_equal(first.S, fit("cosine", 500, [0, 0]).S)  # both learners see the same rows


@pytest.mark.parametrize("d", [2, 4])
def test_u_lap_is_uniform_on_the_sphere_of_the_1_norm(d, rng):
    U = draw_u_lap(4000, d, rng)
    np.testing.assert_allclose(np.abs(U).sum(axis=1), 1)
    # A coordinate of a uniform point of the simplex has Beta(1, d - 1); its sign is a coin.
    assert stats.kstest(np.abs(U[:, 0]), stats.beta(1, d - 1).cdf).pvalue > 0.01
    assert stats.binomtest(int((U[:, 0] > 0).sum()), len(U)).pvalue > 0.01


def test_objective_against_a_loop(rng):
    X, C = rng.standard_normal((7, 3)), rng.standard_normal((4, 3))
    expected = [max(abs(float(np.dot(x, c))) for c in C) for x in X]
    np.testing.assert_allclose(objective(X, C), expected)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.01234, 0.5, 9.96), "0.500 (0.012–10)"),
        ((11.2, 12.34, 15.7), "12.3 (11–16)"),
        ((10.0, 123.4, 1234.5), "123 (10–1234)"),
        ((1e-9, 99.96, 100.0), "100 (1.0e-09–100)"),
        ((-12.0, -1.0, 0.0), "-1.00 (-12–0.0)"),
    ],
)
def test_band_in_words(numbers, text):
    assert str(Band(*numbers)) == text


def test_band():
    found = band(range(11))
    assert found == (1, 5, 9)
    assert str(found) == "5.00 (1.0–9.0)"
