"""Estimates of ``clusterica.estimate`` beside measured times, and the plan of a large run."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.rst import heading, provenance, rst_table

# docs/guide/scaling.rst includes what is between them.
MARKS = "begin of estimates", "end of estimates"
PLAN_MARKS = "begin of plan", "end of plan"


def section(report: dict[str, Any]) -> list[str]:
    """Return estimated and measured times, and the plan that follows from the rates."""
    n, d = report["shape"]
    few, many = report["chunk"]["chunks"]
    table = [
        [
            f"``{row['model']}``" + (f", {row['n_iter']} iterations" if row["n_iter"] else ""),
            f"{row['estimated']:.2g} s",
            f"{row['measured']:.2g} s",
        ]
        for row in report["estimates"]
    ]
    return [
        *heading("Estimates on the CPU"),
        f".. {MARKS[0]}",
        "",
        f"Estimated and measured times of fits to {n:,} x {d} float32 rows, {report['threads']} threads, "
        f"medians of {report['repeats']}, in turns. P was {report['products'] / 1e9:.0f} billion operations "
        f"a second, B {report['bandwidth'] / 1e9:.0f} GB/s.",
        "",
        *provenance(report),
        *rst_table(["fit", "estimated", "measured"], table),
        "What a chunk of a Dask array costs the scheduler and the client in every pass: "
        f"{1000 * report['chunk']['seconds']:.2f} ms, by the times of passes over the same rows in {few} and "
        f"in {many:,} chunks, with two worker processes.",
        "",
        f".. {MARKS[1]}",
        "",
        f".. {PLAN_MARKS[0]}",
        "",
        *_plan(report["plan"], report["chunk"]["seconds"]),
        f".. {PLAN_MARKS[1]}",
        "",
    ]


def _plan(plan: dict[str, Any], chunk: float) -> list[str]:
    n, d, k, t = (plan[key] for key in ("rows", "features", "clusters", "iterations"))
    machines, network, height = plan["machines"], plan["network"], plan["chunk_rows"]
    sums, levels = 8 * k * (d + 2), math.ceil(math.log(machines, 8))
    moving = 8 * levels * sums / network
    chunks = machines * n // height
    rows = [
        ["rows", f"{machines * n:,} of {d} numbers, {4 * machines * n * d / 1e9:.0f} GB"],
        ["rows of a machine", f"{n:,}, {4 * n * d / 1e9:.1f} GB"],
        [f"its work, {t} iterations", f"{plan['seconds'] / 60:.1f} minutes, by ``estimate``"],
        ["whitening before", f"{plan['whitening_seconds']:.0f} s, by ``estimate``"],
        ["one sum", f"8 · {k:,} · {d + 2} bytes = {sums / 1e6:.1f} MB"],
        [
            f"network of {network / 1e9:g} GB/s, a pass",
            f"8 · {levels} · {sums / 1e6:.1f} MB / ({network / 1e9:g} GB/s) = {1000 * moving:.0f} ms",
        ],
        [
            "scheduler, a pass",
            f"{chunks:,} chunks of {height:,} rows ({4 * height * d / 1e6:.0f} MB): {chunks * chunk:.1f} s",
        ],
        ["network and scheduler in all", f"{t * (moving + chunks * chunk):.0f} s"],
    ]
    return rst_table([f"{k:,} centres, {machines} machines", "predicted"], rows)
