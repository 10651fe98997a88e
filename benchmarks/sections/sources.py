"""Sources of mixtures: ClusterICA beside FastICA and picard, and on a GPU."""

from __future__ import annotations

from typing import Any

from benchmarks.rst import heading, provenance, rst_table


def cpu_section(report: dict[str, Any]) -> list[str]:
    """Return the comparison of ClusterICA with FastICA and picard."""
    lines = [
        *heading("Sources on the CPU"),
        *provenance(report),
        "Sources mixed by a Gaussian matrix: sparse (Laplace, Student t5, Bernoulli-Gaussian, cubed "
        "Laplace), light in the tails (uniform, sine, binary, triangular), or all of these (mixed); float64, "
        f"{report['threads']} threads. Medians over draws of data, a "
        "new one every turn; all contenders take turns, with their defaults. *Error* is the Amari distance, "
        "*CPU* the time of both threads together, *worst* the largest of all draws, memory the peak over "
        "the data. FastICA is that of scikit-learn, picard-o is ``picard(ortho=True, extended=True)``.",
        "",
        _losses(report["rows"]),
        "",
    ]
    table = [
        [
            _shape(row),
            f["library"],
            f"{f['seconds']:.2f} s",
            f"{f['cpu_seconds']:.2f} s" if "cpu_seconds" in f else "",
            f"{f['distance']:.4f}",
            f"{max(f['all_distances']):.4f}",
            f"{f['iterations']:.0f}",
            f"{f['extra_mib']:.0f} MiB",
        ]
        for row in report["rows"]
        for f in row["fits"]
    ]
    columns = ["rows x sources", "method", "fit", "CPU", "error", "worst", "iterations", "memory"]
    return lines + rst_table(columns, table)


def _losses(rows: list[dict[str, Any]]) -> str:
    """Return where ``ClusterICA()`` loses in time, error, or over a quarter of FastICA's memory."""
    slow, large, wrong = [], [], []
    for row in rows:
        fits = {f["library"]: f for f in row["fits"]}
        ours, theirs = fits["ClusterICA()"], fits["FastICA"]
        peers = (fits[name]["distance"] for name in ("FastICA", "picard-o") if name in fits)
        error = ours["distance"] / min(peers)
        if error > 1:
            wrong.append(f"{_shape(row)} ({error:.2f} x)")
        times, share = (ours[key] / theirs[key] for key in ("seconds", "extra_mib"))
        if times > 1:
            slow.append(f"{_shape(row)} ({times:.1f} x)")
        if share > 0.25:
            large.append(f"{_shape(row)} ({share:.0%})")
    return (
        "Where ``ClusterICA()`` loses: it takes longer than FastICA at "
        f"{', '.join(slow) or 'no shape'}, its error is larger than that of the better of the others at "
        f"{', '.join(wrong) or 'no shape'}, and its memory is more than a quarter of FastICA's at "
        f"{', '.join(large) or 'no shape'}."
    )


def _shape(row: dict[str, Any]) -> str:
    return f"{row['sources']}, {row['shape'][0]:,} x {row['shape'][1]}"


def gpu_section(report: dict[str, Any]) -> list[str]:
    """Return the fits on a GPU beside the products that their walks need."""
    rows, channels = report["shape"]
    lines = [
        *heading("Sources on the GPU"),
        *provenance(report),
        f"``ClusterICA()`` on {rows:,} rows of {channels} mixed Laplace sources on one {report['gpu']}; "
        f"medians of {report['repeats']} by CUDA events, in turns. *plain* is without fused kernels. "
        "*Passes* are over all rows; *products* is the time of the four matrix products of every pass "
        "alone; *error* is the Amari distance; *same bits* says whether the filters of the last two fits "
        "have the same sum.",
        "",
    ]
    table = [
        [
            name,
            f"{found['ms']:.0f} ms",
            f"{found['products_ms']:.0f} ms",
            f"{found['walks']:.1f}",
            f"{found['error']:.4f}",
            "yes" if found["same_bits"] else "no",
        ]
        for name, found in report["fits"].items()
    ]
    columns = ["kernels", "fit", "products", "passes", "error", "same bits"]
    return lines + rst_table(columns, table)
