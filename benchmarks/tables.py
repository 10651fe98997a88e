"""Write the measured figures into the README and the docs, from the results files alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.kmeans import RESULTS

ROOT = Path(__file__).parent.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.rst"
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
        "interleaved. Written by `make bench`; the docs have the rest.",
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


def rst_table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [columns, *rows]:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def cpu_section(report: dict[str, Any]) -> list[str]:
    """Return the CPU figures: every rule, every contender."""
    machine = report["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["libraries"].items())
    lines = [
        "K-means on the CPU",
        "------------------",
        "",
        f"{report['iterations']} iterations, {report['threads']} threads, float32, on {machine['cpu']}, "
        f"with {versions}; BLAS of NumPy: {'; '.join(machine['blas'])}. Medians of {report['repeats']} "
        "runs; all contenders are loaded at once and take turns. To label the rows, clusterica and "
        "scikit-learn assign them once more at the end; faiss does not, nor does "
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
        "K-means on the GPU",
        "------------------",
        "",
        f"Milliseconds of one iteration on one {report['gpu']}, torch "
        f"{report['machine']['libraries']['torch']}; all contenders in turns, medians of {report['repeats']} "
        "by CUDA events. *plain* is without fused kernels; flash-kmeans multiplies float32 in TF32. *Labels "
        "off* is the share of rows whose label differs from that of float64, *same bits* says whether two "
        "steps gave the same sums.",
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
        "K-means on the GPU",
        "------------------",
        "",
        f"{report['iterations']} iterations on one {report['gpu']}, float32 tensors, torch "
        f"{report['machine']['libraries']['torch']}; medians of {report['repeats']} by CUDA events. The "
        "code is the plain array-API text, without fused kernels: it writes all scores to memory. *Labels "
        "off* is the share of rows whose label differs from that of the same step in float64.",
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


def ica_section(report: dict[str, Any]) -> list[str]:
    """Return the comparison of ClusterICA with FastICA and picard."""
    machine = report["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["libraries"].items())
    lines = [
        "Sources on the CPU",
        "------------------",
        "",
        "Sources mixed by a Gaussian matrix: sparse (Laplace, Student t5, Bernoulli-Gaussian, cubed "
        "Laplace), light in the tails (uniform, sine, binary, triangular), or all of these (mixed); float64, "
        f"{report['threads']} threads, on {machine['cpu']}, with {versions}. Medians over draws of data, a "
        "new one every turn; all contenders take turns, with their defaults. *Error* is the Amari distance, "
        "*CPU* the time of both threads together, *worst* the largest of all draws, memory the peak over "
        "the data. FastICA is that of scikit-learn, picard-o is ``picard(ortho=True, extended=True)``.",
        "",
        _ica_losses(report["rows"]),
        "",
    ]
    table = [
        [
            _ica_shape(row),
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


def _ica_losses(rows: list[dict[str, Any]]) -> str:
    """Return where ``ClusterICA()`` loses in time, error, or over a quarter of FastICA's memory."""
    slow, large, wrong = [], [], []
    for row in rows:
        fits = {f["library"]: f for f in row["fits"]}
        ours, theirs = fits["ClusterICA()"], fits["FastICA"]
        peers = (fits[name]["distance"] for name in ("FastICA", "picard-o") if name in fits)
        error = ours["distance"] / min(peers)
        if error > 1:
            wrong.append(f"{_ica_shape(row)} ({error:.2f} x)")
        times, share = (ours[key] / theirs[key] for key in ("seconds", "extra_mib"))
        if times > 1:
            slow.append(f"{_ica_shape(row)} ({times:.1f} x)")
        if share > 0.25:
            large.append(f"{_ica_shape(row)} ({share:.0%})")
    return (
        "Where ``ClusterICA()`` loses: it takes longer than FastICA at "
        f"{', '.join(slow) or 'no shape'}, its error is larger than that of the better of the others at "
        f"{', '.join(wrong) or 'no shape'}, and its memory is more than a quarter of FastICA's at "
        f"{', '.join(large) or 'no shape'}."
    )


def _ica_shape(row: dict[str, Any]) -> str:
    return f"{row['sources']}, {row['shape'][0]:,} x {row['shape'][1]}"


def images_section(report: dict[str, Any]) -> list[str]:
    """Return the figures of image features: encoding, end to end, and all of CIFAR-10."""
    machine, parts = report["machine"], report["parts"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["libraries"].items())
    lines = [
        "Image features on the CPU",
        "-------------------------",
        "",
        f"6 x 6 patches of 32 x 32 colour images, 2 x 2 cells, float32, "
        f"{report['threads']} threads, on {machine['cpu']}, with {versions}; BLAS of NumPy: "
        f"{'; '.join(machine['blas'])}. All contenders are loaded at once and take turns; medians. *CPU* is "
        "the time of all threads together; where it is less than the seconds, the machine was shared.",
        "",
    ]
    if "encode" in parts:
        lines += _encoding(parts["encode"])
    for name in [name for name in parts if name.startswith("classify")]:
        lines += _classifying(parts[name])
    if "everything" in parts:
        lines += _everything(parts["everything"])
    return lines


def _encoding(part: dict[str, Any]) -> list[str]:
    names = {
        "clusterica": "``ImageFeatures.transform``",
        "numpy": "the same in plain NumPy",
        "gemm": "bare product",
    }
    lines = [
        f"**Encoding** {part['n_images']:,} {part['data']} with {part['n_filters']:,} filters, both signs, "
        f"medians of {part['repeats']}: {part['share_of_gemm']:.1%} of the best bare product of all patches "
        f"with all filters, {part['speed_up_on_numpy']:.1f} x as fast as sliding windows, normalising, "
        "whitening, product, thresholds and sums by NumPy calls, on as many images at a time as is best.",
        "",
    ]
    table = [
        [
            names[row["contender"]],
            f"{row['seconds']:.2f} s",
            f"{row['gflops']:.0f}",
            f"{row['extra_mib']:.0f} MiB",
        ]
        for row in part["rows"]
    ]
    return lines + rst_table(["", "time", "GFLOP/s", "memory"], table)


def _classifying(part: dict[str, Any]) -> list[str]:
    names = {
        ("clusterica", "same"): "clusterica, the same steps",
        ("clusterica", "default"): "clusterica, defaults, ``C='auto'``",
        ("scikit-learn", "same"): "scikit-learn's parts",
    }
    lines = [
        f"**End to end** on {part['n_images']:,} {part['data']}, {part['n_filters']:,} filters, medians of "
        f"{part['repeats']}: {part['speed_up']['same']:.1f} x as fast as ``extract_patches_2d``, ``KMeans`` "
        "and its ``transform`` (triangle codes), ``StandardScaler`` and ``LinearSVC`` of scikit-learn. Both "
        f"learn from {part['n_patches']:,} patches in {part['iterations']} iterations from random rows, with "
        f"one start, and fit the same classifier, C = {part['C']:g} / images, for scikit-learn by its primal "
        f"solver. Accuracy is that on {part['n_images'] // 2:,} other images. The second row is our default "
        "pipeline, with another learner, twice the features, and C by cross-validation.",
        "",
    ]
    table = [
        [
            names[row["contender"], row["kind"]],
            *(
                f"{_seconds(row, stage):.2f} s"
                for stage in ("seconds", "learn", "encode", "classifier", "cpu_seconds")
            ),
            f"{row['accuracy']:.1%}",
        ]
        for row in part["rows"]
    ]
    return lines + rst_table(["", "all", "learn", "encode", "classifier", "CPU", "accuracy"], table)


def _seconds(row: dict[str, Any], stage: str) -> float:
    """Return the time of a stage; files written before 0.1.0 call the classifier "head"."""
    return float(row["head"] if stage == "classifier" and stage not in row else row[stage])


def _everything(part: dict[str, Any]) -> list[str]:
    lines = [
        f"**All of CIFAR-10**, {part['n_filters']:,} filters: learn from {part['n_training']:,} images, "
        f"encode {part['n_images']:,}, fit ``LinearSVC(C='auto')``, once. Memory is the peak beyond the "
        f"images and their features ({part['feature_mib']:,.0f} MiB).",
        "",
    ]
    row = [
        *(
            f"{_seconds(part, stage):.0f} s"
            for stage in ("seconds", "learn", "encode", "classifier", "cpu_seconds")
        ),
        f"{part['extra_mib']:.0f} MiB",
        f"{part['accuracy']:.2%}",
    ]
    return lines + rst_table(
        ["all", "learn", "encode", "classifier", "CPU", "memory", "accuracy"], [row]
    )


def rica_section(report: dict[str, Any]) -> list[str]:
    """Return the figures of RICA and kernel RICA, on the CPU or on a GPU."""
    where = "CPU" if report["device"] == "cpu" else "GPU"
    title = f"RICA on the {where}"
    on = report["machine"]["cpu"] if where == "CPU" else report["device"]
    lines = [title, "-" * len(title), ""]
    if "rica" in report:
        m, n, K = report["rica"]["shape"]
        lines += [
            f"One evaluation of the objective and its gradient, {m:,} rows of {n} features, {K:,} "
            f"components, float32, on {on}; medians of {report['repeats']}, in turns. Operations are counted "
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


TEXT_MARKS = "begin of text", "end of text"


def spherical_section(report: dict[str, Any]) -> list[str]:
    """Return the comparison of clusters of text."""
    machine, title = report["machine"], "Text on the CPU"
    busy = ""
    if (report["share_of_others"] or 0) > 0.1:  # then times say little
        busy = (
            f" **Other programs took {report['share_of_others']:.0%} of the processor meanwhile.**"
        )
    lines = [
        title,
        "-" * len(title),
        "",
        f".. {TEXT_MARKS[0]}",  # docs/guide/text.rst includes what is between the marks
        "",
        f"{report['n_documents']:,} docstrings of numpy, scipy, scikit-learn, pandas, matplotlib and torch, "
        f"{report['n_clusters']} clusters from the same documents, {report['iterations']} iterations (the "
        f"mixture stops when it has converged), float32, {report['threads']} threads, on {machine['cpu']}; "
        f"medians of {report['repeats']}, in turns. TF-IDF is a CSR matrix, which faiss does not take; "
        "embeddings are its first 128 singular directions, at unit length. *Cosine* is the mean cosine of "
        "documents with the direction of their cluster, which spherical K-means maximises; *agreement* is "
        f"the normalised mutual information of clusters and packages.{busy}",
        "",
    ]
    table = [
        [
            f"{row['input']}, {row['n_features']:,}",
            row["method"],
            f"{row['seconds']:.2f} s",
            f"{row['cosine']:.3f}",
            f"{row['agreement']:.3f}",
            f"{row['extra_mib']:.0f} MiB",
        ]
        for row in report["rows"]
    ]
    columns = ["rows, features", "method", "fit and labels", "cosine", "agreement", "memory"]
    return [*lines, *rst_table(columns, table), "", f".. {TEXT_MARKS[1]}", ""]


def readme_images(report: dict[str, Any]) -> str:
    """Return the sentences of the README about image features."""
    parts, lines = report["parts"], []
    if "encode" in parts:
        part = parts["encode"]
        lines.append(
            f"`ImageFeatures` with {part['n_filters']:,} filters of 6 x 6 pixels encodes at "
            f"{part['share_of_gemm']:.1%} of the bare product of patches and filters, "
            f"{part['speed_up_on_numpy']:.1f} x as fast as the same steps in plain NumPy."
        )
    for part in [part for name, part in parts.items() if name.startswith("classify")]:
        if part["repeats"] < 5:  # too few for a claim
            continue
        lines.append(
            f"Learning {part['n_filters']:,} filters from {part['n_images']:,} images, encoding and "
            f"classifying them takes {part['rows'][0]['seconds']:.1f} s, {part['speed_up']['same']:.1f} x "
            "less than with scikit-learn's patches, `KMeans` and `LinearSVC`."
        )
    if "everything" in parts:
        part = parts["everything"]
        lines.append(
            f"All of CIFAR-10 with {part['n_filters']:,} filters, C by validation included, takes "
            f"{part['seconds']:.0f} s ({part['cpu_seconds']:.0f} s of processor time) and "
            f"{part['extra_mib']:.0f} MiB beside images and features, for {part['accuracy']:.2%} correct."
        )
    return "\n".join(lines)


def main() -> None:
    """Write the tables."""
    page = ["Benchmarks", "==========", "", "Written by ``python -m benchmarks``.", ""]
    cpu, gpu, images = (
        RESULTS / f"{name}.json" for name in ("kmeans-cpu", "kmeans-gpu", "images-cpu")
    )
    if cpu.exists():
        report = json.loads(cpu.read_text())
        page += cpu_section(report)
        begin, end = "<!-- benchmark-table -->", "<!-- end of benchmark-table -->"
        block = readme_table(report)
        if images.exists():
            block += f"\n\n{readme_images(json.loads(images.read_text()))}"
        block = f"{begin}\n{block}\n{end}"
        pattern = f"{re.escape(begin)}(.*{re.escape(end)})?"
        README.write_text(re.sub(pattern, lambda _: block, README.read_text(), flags=re.DOTALL))
    if gpu.exists():
        page += gpu_section(json.loads(gpu.read_text()))
    if (RESULTS / "ica-cpu.json").exists():
        page += ica_section(json.loads((RESULTS / "ica-cpu.json").read_text()))
    if (RESULTS / "spherical-cpu.json").exists():
        page += spherical_section(json.loads((RESULTS / "spherical-cpu.json").read_text()))
    if images.exists():
        page += images_section(json.loads(images.read_text()))
    for kind in ("cpu", "gpu"):
        if (RESULTS / f"rica-{kind}.json").exists():
            page += rica_section(json.loads((RESULTS / f"rica-{kind}.json").read_text()))
    PAGE.write_text("\n".join(page))


if __name__ == "__main__":
    main()
