"""Estimates of ``clusterica.estimate`` beside measured times, and what a chunk of a Dask array costs."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table


def section(report: dict[str, Any]) -> list[str]:
    """Return estimated and measured times, and the cost of a chunk."""
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
    ]
