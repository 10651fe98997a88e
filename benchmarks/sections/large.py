"""Fits to a file that is larger than the memory of the process."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table

MARKS = "begin of large", "end of large"  # docs/guide/scaling.rst includes what is between them
FITS = {
    "whitening and K-means": "``Whitener``, then ``KMeans({clusters})``, {iterations} iterations",
    "classifier": "``RidgeClassifier(1.0)``",
}


def section(report: dict[str, Any]) -> list[str]:
    """Return time, bytes read and memory of each fit."""
    product = report["products"][str(report["clusters"])]
    lines = [
        *heading("A file larger than memory"),
        f".. {MARKS[0]}",
        "",
        f"Fits to a file of {report['bytes'] / 1e9:.0f} GB, {report['rows']:,} rows of {report['features']} "
        f"features, in processes that may take {report['limit'] / 2**30:.0f} GiB of memory, with "
        f"``config_context(memory='{report['memory']}')``; once. Before the fits, the disk gave "
        f"{report['disk'] / 1e6:.0f} MB/s, and the bare product with {report['clusters']} centres took "
        f"{product / 1e6:.0f} MB of rows a second. *Memory* is the peak beside the page cache, *others* the "
        "share of the processor that other programs took during the fit.",
        "",
        *provenance(report),
    ]
    table = [
        [
            name.format(**report),
            f"{report[key]['seconds']:.0f} s",
            f"{report[key]['from_disk'] / 1e9:.0f} GB",
            f"{report[key]['peak'] / 2**20:,.0f} MiB",
            f"{report[key]['others']:.0%}" if report[key]["others"] is not None else "",
        ]
        for key, name in FITS.items()
    ]
    columns = ["fit", "time", "read from disk", "memory", "others"]
    return [*lines, *rst_table(columns, table), f".. {MARKS[1]}", ""]
