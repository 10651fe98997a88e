"""The solvers of the linear classifiers beside each other."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table

SOLVERS = {"newton": "Newton", "l-bfgs": "L-BFGS", "principal": "Newton in principal coordinates"}


def section(report: dict[str, Any]) -> list[str]:
    """Return the seconds of a fit with every solver."""
    where = "CPU" if report["device"] == "cpu" else "GPU"
    busiest = max(row["share_of_others"] or 0 for row in report["rows"])
    on = f"{report['threads']} threads" if where == "CPU" else f"one {report['device']}"
    lines = [
        *heading(f"Linear classifiers on the {where}"),
        *provenance(report | {"share_of_others": busiest}),
        f"``LinearSVC`` on {report['rows'][0]['classes']} classes, float32, {on}: a fit with C = 10 / rows, "
        "and one with ``C='auto'``, with each solver that may be worth it. Rows are synthetic: collinear as "
        "features of images are, and mostly zeros at the widest shape. Medians of "
        f"{report['repeats']}, in turns; fits of more than {report['once_over']:.0f} s are timed once. The "
        "solver in bold is the one that a fit chooses.",
        "",
    ]
    table = []
    for row in report["rows"]:
        cells: dict[tuple[str, str], str] = {}
        for fit in row["fits"]:
            text = f"{fit['seconds']:.2f} s{'' if fit['converged'] else ', not converged'}"
            cells[fit["solver"], fit["C"]] = f"**{text}**" if fit["chosen"] else text
        table += [
            [
                f"{row['shape'][0]:,} x {row['shape'][1]:,}",
                name,
                cells.get((solver, "one C"), ""),
                cells.get((solver, "auto"), ""),
            ]
            for solver, name in SOLVERS.items()
            if any(fit["solver"] == solver for fit in row["fits"])
        ]
    lines += rst_table(["rows x features", "solver", "one C", "C='auto'"], table)
    if where == "GPU":
        return lines  # the gaps are those of NumPy arrays
    n, d = report["gap_shape"]
    lines += [
        f"``gap_`` of L-BFGS is an estimate. On {n:,} x {d} such rows in float64, the objective was farther "
        "from its minimum, which Newton's method finds, by these factors:",
        "",
    ]
    factors = [
        [f"{one['strength']:,}", f"{one['factor']:.1f}", f"{one['largest']:.1f}"]
        for one in report["gaps"]
    ]
    return lines + rst_table(["C times rows", "median over classes", "largest"], factors)
