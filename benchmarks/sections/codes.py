"""Codes that reconstruct rows: RICA, kernel RICA and sparse coding."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table


def rica_section(report: dict[str, Any]) -> list[str]:
    """Return the figures of RICA and kernel RICA, on the CPU or on a GPU."""
    where = "CPU" if report["device"] == "cpu" else "GPU"
    on = "" if where == "CPU" else f", on one {report['device']}"
    lines = [*heading(f"RICA on the {where}"), *provenance(report)]
    if "rica" in report:
        m, n, K = report["rica"]["shape"]
        lines += [
            f"One evaluation of the objective and its gradient, {m:,} rows of {n} features, {K:,} "
            f"components, float32{on}; medians of {report['repeats']}, in turns. Operations are counted "
            "as 10 m n K, those of the five products of the objective as it is written; two are made. The "
            f"bare product of rows and filters runs at {report['rica']['bare_gflops']:.0f} GFLOP/s.",
            "",
        ]
        table = [
            [
                row["penalty"],
                f"{row['seconds']:.3g} s",
                f"{row['gflops']:.0f}",
                f"{row['share_of_bare']:.0%}",
            ]
            for row in report["rica"]["rows"]
        ]
        lines += rst_table(["penalty", "evaluation", "GFLOP/s", "of product"], table)
    if "kernel" in report:
        part = report["kernel"]
        m, n, K = part["shape"]
        lines += [
            f"Kernel RICA, {m:,} rows of {n} features, {K} basis vectors, 2-D pools: one batched evaluation, "
            f"from which all vectors move, takes {part['batched_seconds']:.3g} s; one sweep of the fixed "
            f"point, vector by vector with the kernel's values kept, {part['sweep_seconds']:.3g} s, "
            f"{part['speed_up']:.0f} x as long.",
            "",
        ]
    if "peers" in report:
        lines += _rica_peers(report["peers"])
    return lines


def _rica_peers(part: dict[str, Any]) -> list[str]:
    ica, dictionary = part["FastICA"], part["MiniBatchDictionaryLearning"]
    lines = [
        f"{part['n_patches']:,} white patches of photographs, {part['n_features']} features. FastICA of "
        "scikit-learn is met when codes of unit variance have as small a mean log cosh on other patches, to "
        "0.2 %, and W reconstructs to 1 %; MiniBatchDictionaryLearning, with two atoms for every feature, "
        "when the sparse codes of other patches have as small a mean of error and penalty, to 1 %. Steps are "
        f"the fewest of several numbers that do; medians of {len(ica['all_seconds']['RICA'])}, in turns.",
        "",
    ]
    table = [
        [
            name,
            f"{found['seconds']:.2f} s",
            f"{found['rica_seconds']:.2f} s",
            f"{found['steps']}{'' if found['reached'] else ', not reached'}",
        ]
        for name, found in (("FastICA", ica), ("MiniBatchDictionaryLearning", dictionary))
    ]
    return lines + rst_table(["", "its fit", "RICA", "steps"], table)


def sparse_coding_section(report: dict[str, Any]) -> list[str]:
    """Return the time to the same objective as scikit-learn's dictionary learning."""
    rows, features, atoms = report["shape"]
    theirs, ours = report["sklearn"], report["clusterica"]
    limit, jobs = report["seconds_of_sklearn"], report["sklearn_jobs"] or 1
    # Files that are older than the turns do not have them.
    ups = report.get("speed_ups", [])
    way = f", {min(ups):.1f} to {max(ups):.1f} x to what that had reached on its way" if ups else ""
    reached = (
        f"``SparseCoding`` is there {report['speed_up']:.1f} x as fast{way}; once each."
        if report["reached"]
        else f"``SparseCoding`` did not get there within {ours[-1][0]:.0f} s."
    )
    lines = [
        *heading("Sparse coding on the CPU"),
        *provenance(report),
        f"Time to the same objective, ``½ |x - Dᵀ s|² + α |s|₁`` with α = {report['alpha']:g}, of other "
        f"patches, with their best codes: {rows:,} white patches of photographs, {features} features, "
        f"{atoms:,} atoms, the same start. scikit-learn's ``MiniBatchDictionaryLearning`` has "
        f"{limit:.0f} s and {jobs} processes, enough for {report['sklearn_rows']:,} rows, and the mark is "
        f"the best that it reaches; clusterica has {report['threads']} threads, and sees "
        f"{report['clusterica_rows']:,} rows. {reached}",
        "",
    ]
    table = [
        ["the start of both", "", f"{report['start']:.3f}"],
        *(
            [name, f"{seconds:.1f} s", f"{objective:.3f}"]
            for name, (seconds, objective) in (
                ("MiniBatchDictionaryLearning", min(theirs, key=lambda one: one[1])),
                ("``SparseCoding``", ours[-1]),
            )
        ),
    ]
    return lines + rst_table(["", "time", "objective"], table)
