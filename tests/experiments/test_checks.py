"""Checks are decided by the numbers: values that contradict a claim make it fail, others make it hold."""

from copy import deepcopy

import numpy as np
import pytest

from clusterica.experiments import find
from clusterica.experiments._checks import falls, reached, reaches, rises
from clusterica.experiments.bugrien_kent_2005 import iris
from clusterica.experiments.coates_ng_2012 import (
    fig1,
    fig2,
    fig3,
    fig4,
    fig6,
    fig7,
    fig8,
    params,
    recipes,
    table1,
    table2,
    table3,
)
from clusterica.experiments.coates_ng_2012._data_checks import Point, condition_checks, data_checks
from clusterica.experiments.vinnikov_shalev_shwartz_2014 import (
    dists,
    init,
    natural,
    overcomplete,
    rectangles,
)
from clusterica.experiments.vinnikov_shalev_shwartz_2014 import fig1 as four_centroids
from clusterica.experiments.vinnikov_shalev_shwartz_2014._table1_cells import (
    LEARNERS,
    PAPER,
    TableCell,
    checks,
)
from clusterica.experiments.vinnikov_shalev_shwartz_2014._theory_checks import (
    checks as theory_checks,
)

SIZES = (1_000, 10_000, 100_000)
LAW_CELLS = ("d2_m10000", "d2_m100000")
CHANCE = {"d2": 0.1}


def table_1():
    """Return cells whose distances are the paper's, but far from bad optima."""
    cells = []
    for (d, m), printed in PAPER.items():
        cell = TableCell.empty(d, m)
        for name, learner in LEARNERS.items():
            cell.distances[name].extend([0.3 * printed[learner.column]] * 3)
        cell.random_folded.extend([0.01] * 3)
        cells.append(cell)
    return cells


def laws():
    def distances(law):
        return (0.6, 0.6) if law in ("uniform", "gaussian") else (0.03, 0.01)

    return {
        law: {
            cell: {name: [distance] for name in dists.LEARNERS}
            for cell, distance in zip(LAW_CELLS, distances(law), strict=True)
        }
        for law in dists.LAWS
    }


def params_scores():
    return {
        "default": {"400 filters": 0.70},
        "filters": {"100": 0.66, "200": 0.68, "800": 0.72},
        "patch size": {"4 x 4": 0.68, "8 x 8": 0.695},
        "grid": {"1 x 1": 0.64, "3 x 3": 0.70},
        "pooling": {"max": 0.66},
        "encoder": {"hard, equation (1)": 0.6, "hard, nearest of KMeans": 0.6, "sigmoid": 0.5},
        "whitening ε": {"no whitening": 0.6},
    }


SPANS = {"encoder": 0.2, "grid": 0.06, "pooling": 0.04, "learner": 0.05}


def iris_values():
    def one(apart=True):
        return {
            "excess_kurtosis": -1.4,
            "cluster_sizes": [100, 50],
            "setosa_apart": apart,
            "beyond_chance": True,
        }

    contrasts = iris.CONTRASTS
    return {
        **{f"min_{c}": one() for c in contrasts},
        "outliers_setosa_apart": {c: 0.9 if c == "kurtosis" else 1.0 for c in contrasts},
        "one_outlier_along": {c: one(c != "kurtosis") for c in contrasts},
    }


def signals():
    def one(correlation):
        return {
            "share_in_one_half": 0.95,
            "few": {"share_in_one_half": 0.5},
            "energy_correlation": correlation,
            "kurtosis_few": 1.0,
            "kurtosis_few_apart": 2.0,
        }

    return {"pairs": one(0.0), "color": one(0.1)}


def theory():
    return {
        "lemma_2": {"best_angles": [0, 90], "best_objective": 0.75, "next_objective": 0.74},
        "lemma_3": {
            "d5": {
                "ratio_over_theory": 1.001,
                "relative_spread_of_ratio": 1e-4,
                "relative_spread_of_objective": 1e-2,
            }
        },
        "conjecture": {
            "d3": {
                "starts": 5,
                "starts_at_the_axes": 5,
                "best_gain_over_axes": -1e-6,
                "best_gain_error": 1e-6,
                "largest_gain_around_in_errors": 0.5,
            }
        },
        "section_7": {
            "d5_unit": {"codes_worst": 0.99, "signed_sources_found": 10, "n_signed_sources": 10},
            "d5_plain": {"codes_worst": 0.5, "signed_sources_found": 9, "n_signed_sources": 10},
        },
    }


def put(values, path, value):
    """Return a copy of nested values in which one differs."""
    changed = deepcopy(values)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def measured(kurtosis, orientation):
    return {"median_excess_kurtosis": kurtosis, "median_orientation": orientation}


def learned(low_frequency, likeness, kurtosis):
    return fig1.Learned(np.zeros((1, 1)), low_frequency, likeness, kurtosis)


def crowds(single, near_empty, effective, noisy):
    centers = np.zeros((1, 1))
    return [
        fig4.Crowd(16, centers, 0.01, 0.0, 20.0, 0.1),
        fig4.Crowd(64, centers, near_empty, single, effective, noisy),
    ]


DISTANCES = {name: {str(m): [10 / m] * 3 for m in SIZES} for name in four_centroids.LEARNERS}
FILTERS = {"kmeans": measured(9, 0.8), "cosine": measured(9, 0.8), "random": measured(4, 0.1)}
ANGLES = {law: {"kmeans": [1.0] * 10, "cosine": [1.0] * 10} for law in overcomplete.LAWS}
RECTANGLES = {
    law: {"kmeans": {"difference": [0.02, 0.02], "n_missed": [0, 0]}} for law in rectangles.LAWS
}
AXES = {"spherical_laplace": [1.0], "cosine_laplace": [1.0], "spherical_gaussian": [20.0]}
ATOMS = {
    kind: {
        "random_share_found": 0.9,
        "orthogonal_share_found": 1.0,
        "nearest_image_cosine": 0.4,
    }
    for kind in fig3.NAMES
}
KURTOSIS = {"centroid": 9.0, "basis": 8.0, "patch": 4.0, "random": 4.0}
CURVES = {"sparse coding": [[0.5], [0.6], [0.7]], "soft threshold": [[0.4], [0.55], [0.7]]}
# More layers with learned fields are better by five points each, random and single fields are worse.
NETWORKS = {
    "2 layers, single field": -1.0,
    "2 layers, random fields": -1.0,
    "2 layers, learned fields": 5.0,
    "3 layers, learned fields": 10.0,
}
ALL_LABELS = {
    m.name: 90.0 + i / 100 + NETWORKS.get(m.name, 0) for i, m in enumerate(table1.METHODS)
}
FEW_LABELS = {
    m.name: [0.75 + NETWORKS.get(m.name, 0) / 100, 0.76 + NETWORKS.get(m.name, 0) / 100]
    for m in table2.METHODS
}
FOLDS = {m.name: FEW_LABELS[m.name] for m in table3.METHODS}
CONDITIONS = {
    name: {"kmeans": share}
    for name, share in (
        ("whitened", 0.9),
        ("not_whitened", 0.1),
        ("laplace", 0.1),
        ("sparser", 0.5),
    )
}


def params_checks(found, spans=SPANS):
    return params.checks(found, spans, error=0.005, default={"n_filters": 400, "patch_size": 6})


def with_bad_optimum(name):
    cells = table_1()
    (cells[3].random_folded if name == "random" else cells[3].distances[name])[0] = 0.3
    return cells


# Checks of values that agree with the paper, checks of values that do not, and which of them then fail.
CASES = {
    "table 1, a missed axis": (checks(table_1()), checks(with_bad_optimum("folded")), [8]),
    "table 1, random start": (checks(table_1()), checks(with_bad_optimum("random")), [9]),
    "table 1, cosine": (checks(table_1()), checks(with_bad_optimum("cosine_random")), [11]),
    "fig 1": (
        four_centroids.checks(DISTANCES, SIZES),
        four_centroids.checks(put(DISTANCES, ("kmeans", "100000"), [0.03] * 3), SIZES),
        [0, 1],
    ),
    "laws": (
        dists.checks(laws(), CHANCE),
        dists.checks(put(laws(), ("cauchy", "d2_m100000", "kmeans"), [0.9]), CHANCE),
        [4, 5],
    ),
    "laws, controls": (
        dists.checks(laws(), CHANCE),
        dists.checks(put(laws(), ("uniform", "d2_m100000", "cosine"), [0.01]), CHANCE),
        [6],
    ),
    "theory": (
        theory_checks(theory()),
        theory_checks(put(theory(), ("conjecture", "d3", "largest_gain_around_in_errors"), 4.0)),
        [2],
    ),
    "starts": (
        init.checks({"gaussian": [16], "rows": [14], "orthonormal": [7]}, n_filters=198),
        init.checks({"gaussian": [10], "rows": [14], "orthonormal": [10]}, n_filters=198),
        [0, 1, 3],
    ),
    "natural filters": (
        natural.checks(FILTERS),
        natural.checks({**FILTERS, "cosine": measured(5, 0.4)}),
        [2, 3],
    ),
    "overcomplete": (
        overcomplete.checks(ANGLES),
        overcomplete.checks(put(ANGLES, ("cubed", "kmeans"), [1.0] * 8 + [9.0] * 2)),
        [2],
    ),
    "rectangles": (
        rectangles.checks(RECTANGLES, n_columns=100),
        rectangles.checks(
            put(RECTANGLES, ("laplace", "kmeans"), {"difference": [0.04], "n_missed": [1]}),
            n_columns=100,
        ),
        [0, 4],
    ),
    "whitening": (
        fig1.checks(learned(0.6, 0.3, 1), learned(0.1, 0.1, 9)),
        fig1.checks(learned(0.6, 0.3, 1), learned(0.4, 0.2, 2)),
        [1, 2, 3],
    ),
    "tails": (fig2.checks(AXES), fig2.checks({**AXES, "spherical_laplace": [4.0]}), [0]),
    "atoms": (
        fig3.checks(ATOMS),
        fig3.checks(put(ATOMS, ("gabors", "random_share_found"), 0.7)),
        [2],
    ),
    "responses": (
        fig4.response_checks(KURTOSIS),
        fig4.response_checks({**KURTOSIS, "centroid": 5.0}),
        [0, 1, 2],
    ),
    "large patches": (
        fig4.crowd_checks(crowds(0.6, 0.1, 2.0, 0.6)),
        fig4.crowd_checks(crowds(0.4, 0.01, 2.0, 0.6)),
        [0, 1],
    ),
    "large patches, noise": (
        fig4.crowd_checks(crowds(0.6, 0.1, 2.0, 0.6)),
        fig4.crowd_checks(crowds(0.6, 0.1, 20.0, 0.4)),
        [2, 3],
    ),
    "encoders": (
        fig6.checks((20, 400, 5000), CURVES),
        fig6.checks((20, 400, 5000), put(CURVES, ("soft threshold", 1), [0.65])),
        [0],
    ),
    "encoders, no advantage to begin with": (
        fig6.checks((20, 400, 5000), CURVES),
        fig6.checks((20, 400, 5000), put(CURVES, ("soft threshold",), [[0.6], [0.5], [0.8]])),
        [0, 1, 3],
    ),
    "signals": (
        fig7.checks(signals()),
        fig7.checks(put(signals(), ("color", "share_in_one_half"), 0.3)),
        [2],
    ),
    "groups": (fig8.checks(0.7, 0.5), fig8.checks(0.55, 0.5), [0]),
    "settings": (
        params_checks(params_scores()),
        params_checks(put(params_scores(), ("encoder", "sigmoid"), 0.695)),
        [7],
    ),
    "learners": (
        params_checks(params_scores()),
        params_checks(params_scores(), {**SPANS, "learner": 0.3}),
        [0],
    ),
    "all labels": (
        table1.checks(ALL_LABELS),
        table1.checks({**ALL_LABELS, "1 layer, 4800 maps": 79.0}),
        [1, 2],
    ),
    "few labels": (
        table2.checks(FEW_LABELS),
        table2.checks({**FEW_LABELS, "1 layer, 1600 maps": [0.62, 0.63]}),
        [0, 2],
    ),
    "fields no better than random ones": (
        table1.checks(ALL_LABELS),
        table1.checks({**ALL_LABELS, "2 layers, random fields": 95.0}),
        [8, 10],
    ),
    "folds": (
        table3.checks(FOLDS),
        table3.checks({**FOLDS, "2 layers, learned fields": [0.58, 0.58]}),
        [5, 7, 9],
    ),
    "conditions": (
        condition_checks(CONDITIONS),
        condition_checks(put(CONDITIONS, ("not_whitened", "kmeans"), 0.6)),
        [0],
    ),
    "iris": (
        iris.checks(iris_values()),
        iris.checks(put(iris_values(), ("min_kurtosis", "cluster_sizes"), [51, 99])),
        [0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_decide(case):
    agreeing, other, failing = CASES[case]
    assert all(check.holds for check in agreeing)
    assert [i for i, check in enumerate(other) if not check.holds] == failing
    assert all(isinstance(check.holds, bool | np.bool_) and check.found for check in other)


def test_amount_of_data():
    def curves(seconds):
        return {
            d: {
                name: [Point(n, 0.6, 0.9, seconds[name])]
                for name, n in (("kmeans", 50 * d), ("sparse_coding", 20 * d))
            }
            for d in (16, 64)
        }

    def found(needed, seconds):
        return [check.holds for check in data_checks(curves(seconds), needed)]

    quick = {"kmeans": 1.0, "sparse_coding": 9.0}
    needed = {"kmeans": {16: 800.0, 64: 3200.0}, "sparse_coding": {16: 320.0, 64: 1280.0}}
    assert found(needed, quick) == [True] * 4
    assert found(needed, {"kmeans": 9.0, "sparse_coding": 1.0}) == [True, True, True, False]
    beyond = {**needed, "sparse_coding": {16: 320.0, 64: None}}
    assert found(beyond, quick) == [True, False, False, True]


def test_figures_of_rows_that_are_not_run_are_compared_with_any_row():
    few = {name: FEW_LABELS[name] for name in ("1 layer, 1600 maps", "1 layer, 4800 maps")}
    found = {check.claim: check for check in table2.checks(few)}
    assert (
        found["1 layer, 1600 maps here: 64.6 % is reached"].found
        == "first by “1 layer, 1600 maps” 75.5"
    )
    named = "by any row here, the paper's figure of “{}”: {:g} % is reached"
    for name, figure in (("Sparse coding, 1600 maps", 66.4), ("3 layers, learned fields", 70.7)):
        assert found[named.format(name, figure)].holds
    assert not any("fields are" in claim or "points above" in claim for claim in found)


def test_recipes_are_compared_with_marks_where_they_were_run():
    found = {check.claim: check for check in recipes.checks({"MNIST, best": {"accuracy": 0.9963}})}
    assert [check.holds for check in found.values()] == [True]
    slow = {"CIFAR-10, fast": {"accuracy": 0.794, "learn_seconds": 181.0}}
    assert [check.holds for check in recipes.checks(slow)] == [False, False]


def test_falls_and_rises():
    assert falls([3, 2, 1])
    assert not falls([3, 3, 1])
    assert rises([1, 2])
    assert not rises([1, 2, 2])


def test_the_first_row_that_reaches_a_figure_is_named():
    ours = {"plain": 70.0, "mirrored": 75.0, "more": 80.0}
    assert reached("figure", 74.0, ours).found == "first by “mirrored” 75.0"
    missed = reached("figure", 81.0, ours)
    assert not missed.holds
    assert missed.found == "the best row is “more” with 80.0"


@pytest.mark.parametrize(
    ("accuracy", "figure", "holds"),
    [(81.96, 82.0, True), (81.94, 82.0, False), (80.47, 80.49, False), (80.486, 80.49, True)],
)
def test_accuracies_are_compared_as_printed(accuracy, figure, holds):
    assert reaches(accuracy, figure) is holds
    assert reached("figure", figure, {"row": accuracy}).holds is holds


def test_natural_patches_take_data():
    assert all("data" in find(name).options for name in ("P0-natural", "P0-init", "P1-fig4"))
    assert all("rows" in find(name).options for name in ("P1-table1", "P1-table2"))
