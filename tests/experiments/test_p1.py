"""The claims of P1, figures 1 and 2, hold in their quick versions."""

import json

import numpy as np
import pytest

from clusterica.experiments import run

pytest.importorskip("matplotlib")


class Counter:
    """A scikit-learn callback that counts fits."""

    fits = 0

    def setup(self, estimator, context):
        type(self).fits += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass


@pytest.fixture(scope="module")
def figure_1(tmp_path_factory):
    output = tmp_path_factory.mktemp("fig1")
    return run("P1-fig1", quick=True, output=output, callbacks=(Counter(),))


@pytest.fixture(scope="module")
def figure_2(tmp_path_factory):
    return run("P1-fig2", quick=True, output=tmp_path_factory.mktemp("fig2"))


def test_whitening_sharpens_and_spreads_the_centroids(figure_1):
    raw, white = (figure_1.result.values[side] for side in ("not_whitened", "whitened"))
    assert white["low_frequency_share"] < 0.5 * raw["low_frequency_share"]
    assert white["mean_absolute_cosine"] < 0.4 * raw["mean_absolute_cosine"]
    assert white["median_excess_kurtosis"] > 3 > raw["median_excess_kurtosis"]


def test_both_fits_are_watched(figure_1):
    assert Counter.fits == 2


def test_table_prints_the_measured_values(figure_1):
    values = figure_1.result.values
    printed = [row[2:] for row in figure_1.result.rows]
    expected = zip(*(values[side].values() for side in ("not_whitened", "whitened")), strict=True)
    assert printed == list(expected)


def test_centroids_lie_on_the_tails(figure_2):
    values = {name: np.array(angles) for name, angles in figure_2.result.values.items()}
    assert np.median(values["spherical_laplace_angles"]) < 3
    assert np.median(values["cosine_laplace_angles"]) < 3
    assert values["cosine_laplace_angles"].max() < 6
    assert np.median(values["spherical_gaussian_angles"]) > 6
    assert all((angles <= 45.0001).all() for angles in values.values())


def test_same_seed_same_numbers(figure_2, tmp_path):
    again = run("P1-fig2", quick=True, output=tmp_path)
    other = run("P1-fig2", quick=True, output=tmp_path, seed=1)
    assert again.result.values == figure_2.result.values
    assert other.result.values != figure_2.result.values


def test_files_and_time(figure_1, figure_2):
    for outcome in (figure_1, figure_2):
        record = json.loads(outcome.json_path.read_text(encoding="utf-8"))
        assert record["values"] == outcome.result.values
        (picture,) = outcome.picture_paths
        assert picture.name == f"{outcome.experiment.name}.png"
        assert picture.stat().st_size > 10_000
