"""Ten iterations of K-means on a CUDA device, against the matrix product alone on the same device.

Times are CUDA events after a warm-up, medians of several runs; the sums of one step are compared with
those in float64.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.kmeans import ITERATIONS, RESULTS, SHAPES
from benchmarks.machine import describe
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.ops.assign import lloyd_sums
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, GAIN_SHAPE, Rule


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a run, by events, after one run to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1000)
    return median(times)


def agreement(X: torch.Tensor, C: torch.Tensor, rule: Rule) -> dict[str, float]:
    """Compare one step in float32 with float64 on some rows: labels that differ, error of the sums."""
    X = X[:50_000]
    ones = torch.ones(len(X), device=X.device)
    labels, total = lloyd_sums(X, C, None, ones, rule=rule)
    exact_labels, exact = lloyd_sums(X.double(), C.double(), None, ones.double(), rule=rule)
    return {
        "labels_differing": float((labels != exact_labels).float().mean()),
        "gain_error": abs(float(total.gain / exact.gain) - 1),
    }


def measure(shape: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Time all rules on one shape."""
    n, d, k = shape
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, d, device="cuda", generator=generator)
    C = X[torch.randperm(n, device="cuda", generator=generator)[:k]].clone()
    unit = C / C.norm(dim=1, keepdim=True)
    block = min(n, 2**17)

    def product() -> None:
        for i in range(0, n, block):
            X[i : i + block] @ C.T

    gemm = seconds(product, repeats)
    row: dict[str, Any] = {"shape": shape, "gemm_tflops": 2e-12 * n * d * k / gemm, "fits": []}
    makers = {
        EUCLIDEAN: lambda: KMeans(k, init=C, max_iter=ITERATIONS, tol=0),
        GAIN_SHAPE: lambda: GainShapeKMeans(k, init=C, max_iter=ITERATIONS, tol=0),
        DIRECTION: lambda: SphericalKMeans(k, init=C, max_iter=ITERATIONS, tol=0),
        AXIS: lambda: CosineKMeans(k // 2, init=C[: k // 2], max_iter=ITERATIONS, tol=0),
    }
    for rule, make in makers.items():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fit = seconds(lambda make=make: make().fit(X), repeats)
        free = C if rule is EUCLIDEAN else unit[: k // 2] if rule is AXIS else unit
        row["fits"].append(
            {
                "rule": rule.name.lower(),
                "fit_seconds": fit,
                "tflops": 2e-12 * n * d * len(free) * (ITERATIONS + 1) / fit,
                "extra_mib": (torch.cuda.max_memory_allocated() - before) / 2**20,
                **agreement(X, free, rule),
            }
        )
    return row


def main() -> None:
    """Measure and write ``results/kmeans-gpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", default=str(RESULTS / "kmeans-gpu.json"))
    options = parser.parse_args()
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape, options.repeats))
        print(json.dumps(rows[-1]), flush=True)
    report = {"gpu": torch.cuda.get_device_name(), "machine": describe(), "iterations": ITERATIONS}
    with open(options.output, "w") as file:
        file.write(json.dumps(report | {"repeats": options.repeats, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
