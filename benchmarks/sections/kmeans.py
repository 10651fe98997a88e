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
        f"Ten iterations of `KMeans` on {report['threads']} threads ({report['machine']['cpu']}), "
        f"float32, the same start for all; medians of {report['repeats']}, contenders "
        f"interleaved; measured {when(report)}. Written by `make bench`; the docs have the rest."
        f"{slow_blas(report)}",
        "",
        "| rows x features, clusters | fit | speed-up on scikit-learn | of an iteration "
        "| on faiss | of an iteration | on the bare product | of an iteration "
        "| memory over the data |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in report["rows"]:
        fit = next(f for f in row["fits"] if f["rule"] == "euclidean")
        sklearn, faiss = row["speed_up"]["scikit-learn"], best_faiss(row)
        lines.append(
            f"| {shape_name(row['shape'])} | {fit['fit_seconds']:.2f} s "
            f"| {sklearn['fit']:.2f} x | {sklearn['iteration']:.2f} x "
            f"| {faiss['fit']:.2f} x | {faiss['iteration']:.2f} x "
            f"| {fit['share_of_gemm_fit']:.2f} x | {fit['share_of_gemm_iteration']:.2f} x "
            f"| {fit['extra_mib']:.0f} MiB |"
        )
    lines += [
        "",
        "The bare product is the fastest way to multiply all rows with all centres in float32 that NumPy's "
        "BLAS offers, and nothing else. A fit can be faster where the processor multiplies bfloat16: "
        "rounded products leave one or two candidates for a row, which are scored in float32, so that "
        "labels are those of float32. scikit-learn and clusterica assign all rows once "
        "more at the end, to label them; faiss does not, and neither does `KMeans(compute_labels=False)`.",
    ]
    return "\n".join(lines)


def best_faiss(row: dict[str, Any]) -> dict[str, float]:
    """Return the speed-up on faiss with the kernels that suit it best."""
    kinds = [value for name, value in row["speed_up"].items() if name.startswith("faiss")]
    return min(kinds, key=lambda speed_up: speed_up["fit"])


def cpu_section(report: dict[str, Any]) -> list[str]:
    """Return the CPU figures: every rule, every contender."""
    lines = [
        *heading("K-means on the CPU"),
        *provenance(report),
        f"{report['iterations']} iterations, {report['threads']} threads, float32. Medians of "
        f"{report['repeats']} runs; all contenders are loaded at once and take turns. To label the rows, "
        "clusterica and scikit-learn assign them once more at the end; faiss does not, nor does "
        "``compute_labels=False``. *Iteration* is the slope between 2 and "
        f"{report['iterations']} iterations. *Of product* is the time of the best bare matrix products of "
        "NumPy's BLAS in float32, measured in the same run, as a share of the fit's: above 100 % where "
        "bfloat16 finds the candidates. Memory is the peak over the data.",
        "",
    ]
    for row in report["rows"]:
        lines += [
            f"**{shape_name(row['shape'])}** (bare product {row['gemm_gflops']:.0f} GFLOP/s)",
            "",
        ]
        table = [
            [
                f"{f['library']} {RULES[f['rule']] if f['library'].startswith('clusterica') else ''}".strip(),
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
        f"{report['repeats']} by CUDA events. *plain* is without fused kernels, *float32* has the labels of "
        "float32 behind a screen of float16; then come those of TF32 and float16, of clusterica and of "
        "others, which know the Euclidean rule and that of directions. *TF32 ratio* is the time of "
        "flash-kmeans over that of clusterica, where it knows the rule, and *float16 ratio* likewise. The "
        "axis rule counts an axis and its negative as two clusters, and multiplies half as much. *Labels "
        "off* is the share of rows whose label in float32 differs from that of float64. The bare product "
        "of all rows and centres writes its result, which fused kernels do not. "
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
    """Return a sentence on the first shape, for the README."""
    row = report["rows"][0]
    n, d, k = row["shape"]
    ms = {
        (s["contender"], s["precision"]): s["ms"] for s in row["steps"] if s["rule"] == "euclidean"
    }
    return (
        f"On one {report['gpu']} an iteration of `KMeans` on {n:,} x {d} rows with {k:,} centres takes "
        f"{ms['clusterica', 'float32']:.2f} ms with the labels of float32, "
        f"{ms['clusterica', 'tf32']:.2f} ms in TF32 and {ms['clusterica', 'float16']:.2f} ms in float16; "
        f"flash-kmeans takes {ms['flash-kmeans', 'tf32']:.2f} ms in TF32 and "
        f"{ms['flash-kmeans', 'float16']:.2f} ms in float16, plain tensor operations take "
        f"{ms['clusterica', 'plain']:.2f} ms."
    )
