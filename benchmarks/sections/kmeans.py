"""K-means on the CPU and on a GPU, and the table of the README."""

from __future__ import annotations

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


def gpu_steps_section(report: dict[str, Any]) -> list[str]:
    """Return the iterations of K-means on a GPU, beside those of other libraries and the bare products."""
    lines = [
        *heading("K-means on the GPU"),
        *provenance(report),
        f"Milliseconds of one iteration on one {report['gpu']}; all contenders in turns, medians of "
        f"{report['repeats']} by CUDA events. *plain* is without fused kernels; flash-kmeans multiplies "
        "float32 in TF32. *Labels off* is the share of rows whose label differs from that of float64, *same "
        "bits* says whether two steps gave the same sums.",
        "",
    ]
    table = []
    for row in report["rows"]:
        shape = shape_name(row["shape"])
        for precision, ms in row["product_ms"].items():
            table.append([shape, "bare product", "", precision, f"{ms:.2f}", "", ""])
        for step in row["steps"]:
            checked = "labels_differing" in step
            off = f"{step['labels_differing']:.0e}" if checked else ""
            bits = ("yes" if step["same_bits"] else "no") if checked else ""
            found = [step["contender"], step["rule"], step["precision"], f"{step['ms']:.2f}"]
            table.append([shape, *found, off, bits])
    columns = ["shape", "contender", "rule", "precision", "ms", "labels off", "same bits"]
    return lines + rst_table(columns, table)


def gpu_section(report: dict[str, Any]) -> list[str]:
    """Return the GPU figures."""
    if "steps" in report["rows"][0]:
        return gpu_steps_section(report)
    lines = [
        *heading("K-means on the GPU"),
        *provenance(report),
        f"{report['iterations']} iterations on one {report['gpu']}, float32 tensors; medians of "
        f"{report['repeats']} by CUDA events. The code was the plain array-API text, without fused "
        "kernels: it writes all scores to memory. *Labels off* is the share of rows whose label "
        "differs from that of the same step in float64.",
        "",
    ]
    table = [
        [
            shape_name(row["shape"]),
            f["rule"].replace("_", "-"),
            f"{f['fit_seconds']:.3f} s",
            f"{f['tflops']:.1f}",
            f"{row['gemm_tflops']:.1f}",
            f"{f['labels_differing']:.0e}" if f["labels_differing"] else "0",
            f"{f['extra_mib']:.0f} MiB",
        ]
        for row in report["rows"]
        for f in row["fits"]
    ]
    columns = ["shape", "rule", "fit", "TFLOP/s", "bare product", "labels off", "memory"]
    return lines + rst_table(columns, table)
