"""Data larger than memory: a file and the memory of the process, host arrays and that of a GPU."""

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


def stream_section(report: dict[str, Any]) -> list[str]:
    """Return the rates of host arrays that go through a GPU block by block, beside those of the link."""
    rows, features = report["shape"]
    up, down = (f"{report['copies_gb_s'][way]:.0f}" for way in ("to device", "to host"))
    lines = [
        *heading("Host arrays through a GPU"),
        *provenance(report),
        f"{rows:,} rows of {features} features in host memory, {4e-9 * rows * features:.0f} GB, on one "
        f"{report['gpu']} with ``config_context(device='cuda', memory='{report['budget']}')``. The most "
        f"memory of the device in use was {report['peak_device_bytes'] / 2**30:.1f} GiB. The link alone "
        f"copies {up} GB/s to the device and {down} GB/s back. *K-means* is one pass over all rows.",
        "",
    ]
    names = {
        "plain": "K-means, plain operations",
        "fused": "K-means, fused kernels",
        "whiten": "whitening",
    }
    table = [[names[name], f"{rate:.1f} GB/s"] for name, rate in report["gb_s"].items()]
    return lines + rst_table(["work", "rows"], table)
