"""The claims of P2 on the iris data hold, in the quick version."""

import json

import pytest

from clusterica.experiments import run

pytest.importorskip("matplotlib")
ROBUST = ("logcosh", "exp", "negentropy")


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    return run("P2-iris", quick=True, output=tmp_path_factory.mktemp("iris"))


@pytest.mark.parametrize("contrast", ["kurtosis", *ROBUST])
def test_exactly_setosa_apart(iris, contrast):
    found = iris.result.values[f"min_{contrast}"]
    assert sorted(found["cluster_sizes"]) == [50, 100]
    assert found["setosa_apart"]
    assert found["beyond_chance"]
    assert found["share_of_starts"] > 0.85


def test_least_kurtosis(iris):
    values = iris.result.values
    assert values["min_kurtosis"]["excess_kurtosis"] == pytest.approx(-1.448, abs=5e-4)
    least = min(values[f"min_{contrast}"]["excess_kurtosis"] for contrast in ROBUST)
    assert least > values["min_kurtosis"]["excess_kurtosis"]


def test_super_and_standard_ica(iris):
    """No sparse direction stands out, so that the one farthest from Gaussian is that of the clusters."""
    values = iris.result.values
    for contrast in ("kurtosis", *ROBUST):
        assert values[f"max_{contrast}"]["excess_kurtosis"] > 0
        assert not values[f"max_{contrast}"]["setosa_apart"]
        assert not values[f"max_{contrast}"]["beyond_chance"]
        assert values[f"abs_{contrast}"]["setosa_apart"]
        assert values[f"abs_{contrast}"]["objective"] == pytest.approx(
            values[f"min_{contrast}"]["objective"]
        )


def test_kurtosis_is_not_robust_and_the_others_are(iris):
    apart = iris.result.values["outliers_setosa_apart"]
    one = iris.result.values["one_outlier_along"]
    assert apart["kurtosis"] < 1
    assert not one["kurtosis"]["setosa_apart"]
    for contrast in ROBUST:
        assert apart[contrast] == 1
        assert one[contrast]["setosa_apart"]


def test_table_prints_what_was_measured(iris):
    first = iris.result.rows[0]
    assert first[:2] == ("sub-ICA", "kurtosis")
    assert first[3] == "-1.448"
    assert sorted(first[4].split(" / ")) == ["100", "50"]
    found = round(200 * iris.result.values["min_kurtosis"]["share_of_starts"])
    assert first[6] == f"{found} of 200"
    assert {len(row) for row in iris.result.rows} == {len(iris.result.columns)}


def test_files(iris):
    record = json.loads(iris.json_path.read_text(encoding="utf-8"))
    assert record["values"] == iris.result.values
    (picture,) = iris.picture_paths
    assert picture.name == "P2-iris.png"
    assert picture.stat().st_size > 10_000


def test_same_seed_same_numbers(iris, tmp_path):
    assert run("P2-iris", quick=True, output=tmp_path).result.values == iris.result.values
