"""K-means on the CPU and on a GPU, and the table of the README."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.rst import heading, provenance, rst_table, slow_blas, when

RULES = {
    "euclidean": "KMeans",
    "no labels": "KMeans(compute_labels=False)",
    "gain-shape": "GainShapeKMeans",
    "direction": "SphericalKMeans",
    "cosine": "CosineKMeans",
}


def shape_name(shape: list[int]) -> str:
    """Return ``400,000 x 108, k = 1,600``."""
    n, d, k = shape
    return f"{n:,} x {d}, k = {k:,}"


def readme_table(report: dict[str, Any]) -> str:
    """Return the short table of the README, in Markdown."""
    lines = [
        "## Speed",
        "",
        f"Seconds for {report['iterations']} iterations of `KMeans` in float32 from the same start, on "
        f"{report['threads']} threads of {report['machine']['cpu']}; medians of {report['repeats']} fits, in "
        f"turns.{slow_blas(report)}",
        "",
        "| rows x features, clusters | clusterica | without bfloat16 | scikit-learn | faiss |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in report["rows"]:
        seconds = {f["library"]: f["fit_seconds"] for f in row["fits"] if f["rule"] == "euclidean"}
        # Peers that were not installed have no time.
        faiss = min((s for name, s in seconds.items() if name.startswith("faiss")), default=None)
        ours = [seconds["clusterica"], seconds["clusterica without bfloat16"]]
        times = (*ours, seconds.get("scikit-learn"), faiss)
        cells = ["" if s is None else f"{s:.2f}" for s in times]
        lines.append(f"| {' | '.join([shape_name(row['shape']), *cells])} |")
    lines += [
        "",
        "Processors that multiply bfloat16 are faster, and labels are those of float32 all the same. faiss "
        "has the fastest setting of its BLAS, and does not label the rows in this time. Measured "
        f"{when(report)}; [the benchmarks](docs/benchmarks.rst) have memory and other estimators.",
    ]
    return "\n".join(lines)


def cpu_section(report: dict[str, Any]) -> list[str]:
    """Return the CPU figures: every rule, every contender."""
    lines = [
        *heading("K-means on the CPU"),
        *provenance(report),
        f"{report['iterations']} iterations, {report['threads']} threads, float32. Medians of "
        f"{report['repeats']} runs; all contenders are loaded at once and take turns. To label the rows, "
        "clusterica and scikit-learn assign them once more at the end; faiss does not, nor does "
        "``compute_labels=False``. *Iteration* is the slope between 2 and "
        f"{report['iterations']} iterations. *Of product* compares with the bare product of all rows and "
        "centres by NumPy's BLAS in float32, measured in the same run: 100 % is as fast, and more is faster, "
        "by products in bfloat16. *faiss, SkylakeX* is faiss with its BLAS set to AVX-512, which it does not "
        "choose itself. Memory is the peak over the data.",
        "",
    ]
    for row in report["rows"]:
        lines += [
            f"**{shape_name(row['shape'])}** (bare product {row['gemm_gflops']:.0f} GFLOP/s)",
            "",
        ]
        table = [
            [
                _fit_name(f),
                f"{f['fit_seconds']:.2f} s",
                f"{1000 * f['iteration_seconds']:.0f} ms",
                f"{f['share_of_gemm_fit']:.0%}",
                f"{f['share_of_gemm_iteration']:.0%}",
                f"{f['extra_mib']:.0f} MiB",
            ]
            for f in row["fits"]
        ]
        columns = ["", "fit", "iteration", "of product, fit", "of product, iteration", "memory"]
        lines += rst_table(columns, table)
    return lines


def _fit_name(fit: dict[str, Any]) -> str:
    """Return ``clusterica KMeans, without bfloat16``."""
    library, *how = fit["library"].split(" ", 1)
    if library != "clusterica":
        return fit["library"]
    return ", ".join([f"clusterica {RULES[fit['rule']]}", *how])


# Columns of the table of a GPU: what stands there, contender and precision.
GPU_COLUMNS = {
    "plain": ("clusterica", "plain"),
    "float32": ("clusterica", "float32"),
    "TF32": ("clusterica", "tf32"),
    "float16": ("clusterica", "float16"),
    "flash-kmeans TF32": ("flash-kmeans", "tf32"),
    "flash-kmeans float16": ("flash-kmeans", "float16"),
    "FlashLib TF32": ("flashlib", "tf32"),
    "FlashLib float16": ("flashlib", "float16"),
}


def gpu_section(report: dict[str, Any]) -> list[str]:
    """Return the iterations of K-means on a GPU, beside those of other libraries and the bare products."""
    lines = [
        *heading("K-means on the GPU"),
        *provenance(report),
        f"Milliseconds of one iteration on one {report['gpu']}; all contenders in turns, medians of "
        f"{report['repeats']} by CUDA events. The first four columns are clusterica: *plain* tensor "
        "operations, and fused kernels in each ``precision``. Labels of *float32* are those of float32. "
        "*TF32 ratio* and *float16 ratio* are the time of flash-kmeans over that of clusterica. Empty: the "
        "other library does not have the rule. The axis rule, that of ``CosineKMeans``, counts an axis and "
        "its negative as two clusters, and multiplies half as much. *Labels off* is the share of rows whose "
        "label in float32 differs from that of float64. The bare product of all rows and centres writes its "
        "result, which fused kernels do not. "
        + _same_bits(report["rows"])
        + _spread(report["rows"]),
        "",
    ]
    table = []
    for row in report["rows"]:
        ms = {(s["contender"], s["rule"], s["precision"]): s["ms"] for s in row["steps"]}
        product = row["product_ms"]
        for rule in dict.fromkeys(s["rule"] for s in row["steps"]):
            found = {name: ms.get((who, rule, p)) for name, (who, p) in GPU_COLUMNS.items()}
            ratios = [_ratio(found[a], found[b]) for a, b in _COMPARED]
            off = [
                s.get("labels_differing", 0) for s in row["steps"] if s["precision"] == "float32"
            ]
            cells = [f"{t:.2f}" if t is not None else "" for t in found.values()]
            table.append(
                [
                    shape_name(row["shape"]),
                    rule,
                    *cells,
                    *ratios,
                    f"{max(off, default=0):.0e}" if max(off, default=0) else "0",
                    " / ".join(f"{product[p]:.2f}" for p in ("float32", "tf32", "float16")),
                ]
            )
    columns = ["shape", "rule", *GPU_COLUMNS, "TF32 ratio", "float16 ratio", "labels off"]
    return lines + rst_table([*columns, "bare product, float32 / TF32 / float16"], table)


# Times whose ratios are told: theirs over ours.
_COMPARED = (("flash-kmeans TF32", "TF32"), ("flash-kmeans float16", "float16"))


def _ratio(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f} x" if theirs and ours else ""


def _spread(rows: list[dict[str, Any]]) -> str:
    """Say how far the turns lie apart, if the file has it."""
    said = " The time of an iteration is the difference of a longer and a shorter fit, over their iterations"
    spreads = [s["spread_ms"] / s["ms"] for row in rows for s in row["steps"] if "spread_ms" in s]
    if not spreads:
        return f"{said}. This file does not say how much turns differ, and single figures may be off by half."
    return f"{said}. Turns differ by {100 * median(spreads):.0f} % (the median over the table)."


def _same_bits(rows: list[dict[str, Any]]) -> str:
    checked = [step for row in rows for step in row["steps"] if "same_bits" in step]
    same = all(step["same_bits"] for step in checked)
    return f"Two steps gave the same bits in {'all' if same else 'not all'} {len(checked)} cases."


def readme_gpu(report: dict[str, Any]) -> str:
    """Return sentences on the first shape and the range of all, for the README."""
    times = [
        {
            (s["contender"], s["precision"]): s["ms"]
            for s in row["steps"]
            if s["rule"] == "euclidean"
        }
        for row in report["rows"]
    ]
    n, d, k = report["rows"][0]["shape"]
    said = []
    for name, precision in (("TF32", "tf32"), ("float16", "float16")):
        ratios = [ms["flash-kmeans", precision] / ms["clusterica", precision] for ms in times]
        said.append(f"{min(ratios):.1f} to {max(ratios):.1f} times in {name}")
    return (
        f"On one {report['gpu']} an iteration of `KMeans` on {n:,} x {d} rows with {k:,} centres takes "
        f"{times[0]['clusterica', 'float32']:.2f} ms with the labels of float32, and "
        f"{times[0]['clusterica', 'plain']:.2f} ms by plain tensor operations. Over {len(times)} shapes it "
        f"is {' and '.join(said)} as fast as in flash-kmeans."
    )
