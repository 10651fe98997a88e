"""What Vinnikov & Shalev-Shwartz 2014 prove and conjecture of axes, asked of what was measured."""

from __future__ import annotations

from typing import Any

from clusterica.experiments._result import Check

ERRORS = 3.0  # standard errors on fresh rows up to which a gain is chance, in the best of hundreds of sets
MONOTONE = 0.9  # rank correlation of codes with sources, in the worst centroid


def checks(values: dict[str, Any]) -> list[Check]:
    """Ask of every statement whether it holds in all dimensions that were tried.

    Parameters
    ----------
    values : dict
        What was measured of each statement, by dimension.

    Returns
    -------
    list of Check
    """
    return [
        _lemma_2(values["lemma_2"]),
        _lemma_3(values["lemma_3"]),
        _conjecture(values["conjecture"]),
        _section_7(values["section_7"]),
    ]


def _lemma_2(plane: dict[str, Any]) -> Check:
    """Ask whether the axes are the only maximiser in the plane."""
    return Check(
        "lemma 2: in the plane the axes are the only maximiser",
        plane["best_angles"] == [0, 90] and plane["next_objective"] < plane["best_objective"],
        "{}° and {}°".format(*plane["best_angles"])
        + f" have {plane['best_objective']:.5f}, all others at most {plane['next_objective']:.5f}",
    )


def _lemma_3(third: dict[str, Any]) -> Check:
    """Ask whether the two objectives are proportional."""
    off = max(abs(v["ratio_over_theory"] - 1) for v in third.values())
    spread = max(
        v["relative_spread_of_ratio"] / v["relative_spread_of_objective"] for v in third.values()
    )
    return Check(
        "lemma 3: both objectives are proportional, with a ratio within 1 % of d / √2 and a spread of at "
        "most a tenth of the objective's",
        off <= 0.01 and spread <= 0.1,
        f"ratio off by {off:.2%} at most, spread {spread:.3f} of the objective's at most",
    )


def _conjecture(search: dict[str, Any]) -> Check:
    """Ask whether no set of unit vectors beats the axes beyond chance."""
    gain = max(v["best_gain_over_axes"] / v["best_gain_error"] for v in search.values())
    around = max(v["largest_gain_around_in_errors"] for v in search.values())
    ended = [f"{v['starts_at_the_axes']} of {v['starts']} for {d}" for d, v in search.items()]
    return Check(
        "conjecture 1: no set of unit vectors beats the axes, neither the best end of all starts nor any "
        f"set around the axes by more than {ERRORS:g} standard errors on fresh rows",
        max(gain, around) <= ERRORS,
        f"best end {gain:+.1f} standard errors, best set around the axes {around:+.1f}; starts that end "
        f"at the axes: {', '.join(ended)}",
    )


def _section_7(cases: dict[str, Any]) -> Check:
    """Ask whether codes of unit rows follow the sources."""
    codes = {case: v for case, v in cases.items() if case.endswith("unit")}
    worst = min(v["codes_worst"] for v in codes.values())
    return Check(
        "section 7: on rows of unit length triangle codes are monotone in the sources, with a rank "
        f"correlation of at least {MONOTONE:g} for every centroid, and every signed source has one",
        worst >= MONOTONE
        and all(v["signed_sources_found"] == v["n_signed_sources"] for v in codes.values()),
        f"least rank correlation {worst:.3f}; sources with a centroid: "
        + ", ".join(
            f"{v['signed_sources_found']} of {v['n_signed_sources']}" for v in codes.values()
        ),
    )
