"""Image features: encoding, end to end, all of CIFAR-10, and on a GPU."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.rst import heading, provenance, rst_table, slow_blas, when


def cpu_section(report: dict[str, Any]) -> list[str]:
    """Return the figures of image features: encoding, end to end, and all of CIFAR-10."""
    parts = report["parts"]
    lines = [
        *heading("Image features on the CPU"),
        *provenance(report),
        f"6 x 6 patches of 32 x 32 colour images, 2 x 2 cells, float32, "
        f"{report['threads']} threads. All contenders are loaded at once and take turns; medians. *CPU* is "
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


def gpu_section(report: dict[str, Any]) -> list[str]:
    """Return the encoding in every precision beside its product, and whole runs from images to accuracy."""
    part, kind = report["encodings"], "images of CIFAR-10" if report["data"] else "random images"
    lines = [
        *heading("Image features on the GPU"),
        *provenance(report),
        f"**Encoding** {part['n_images']:,} {kind} on one {report['gpu']}, medians by CUDA events, in turns. "
        "*plain* is without fused kernels, *product* the bare product of all patches and filters in that "
        "precision, *error* the distance of the features from those of *plain*, relative to their norm.",
        "",
    ]
    table = [
        [
            precision,
            f"{ms:.1f} ms",
            f"{part['product_ms'].get(precision, part['product_ms']['float32']):.1f} ms",
            f"{part['error'][precision]:.1e}",
            "yes" if part["same_bits"][precision] else "no",
        ]
        for precision, ms in part["ms"].items()
    ]
    lines += rst_table(["precision", "encoding", "product", "error", "same bits"], table)
    lines += [
        "**End to end**: learn filters, encode all images, fit ``LinearSVC(C='auto')``; medians. The first "
        "run of each, which compiles, is left out.",
        "",
    ]
    table = [
        [
            name,
            *(
                f"{median(r[s] for r in runs):.2f} s"
                for s in ("all", "learn", "encode", "classifier")
            ),
            f"{median(r['accuracy'] for r in runs):.1%}" if report["data"] else "",
            f"{len(runs)}",
        ]
        for name, runs in report["runs"].items()
        if not name.startswith("first ")
    ]
    columns = ["precision, images", "all", "learn", "encode", "classifier", "accuracy", "runs"]
    return lines + rst_table(columns, table)


def readme_images(report: dict[str, Any]) -> str:
    """Return the sentences of the README about image features."""
    parts, cpu = report["parts"], report["machine"]["cpu"]
    said = [
        f"Image features, on {report['threads']} threads of {cpu}, measured {when(report)}:"
        f"{slow_blas(report)}"
    ]
    for part in [part for name, part in parts.items() if name.startswith("classify")]:
        if part["repeats"] < 5:  # too few for a claim
            continue
        seconds = {
            row["contender"]: row["seconds"] for row in part["rows"] if row["kind"] == "same"
        }
        said.append(
            f"- Learning {part['n_filters']:,} filters from {part['n_images']:,} {part['data']}, encoding "
            f"and classifying them takes {seconds['clusterica']:.1f} s; with scikit-learn's patches, "
            f"`KMeans` and `LinearSVC` it takes {seconds['scikit-learn']:.1f} s."
        )
    if "everything" in parts:
        part = parts["everything"]
        said.append(
            f"- All of CIFAR-10 with {part['n_filters']:,} filters takes {part['seconds'] / 60:.0f} minutes, "
            f"with C by validation, and classifies {part['accuracy']:.1%} of the test images correctly."
        )
    return "\n".join([said[0], "", *said[1:]])
