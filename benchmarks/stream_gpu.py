"""Rows of host memory through a CUDA device in a small budget: passes and results against the link.

K-means reads all rows once for each iteration: the difference of fits of two lengths is the time of passes
alone. Whitening sends all rows back to the host. Beside them stand the rates of the link, each way, and the
most memory of the device that was in use.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import sklearn
import torch

from benchmarks.gpu import copy_rate, report, that_work
from benchmarks.kmeans import RESULTS
from clusterica import config_context
from clusterica.cluster import KMeans
from clusterica.preprocessing import Whitener

N_FEATURES, N_CLUSTERS = 256, 64
SHORT, LONG = 1, 4  # iterations of the two fits


def host_rows(gibibytes: float) -> np.ndarray:
    """Return Gaussian rows in host memory, drawn on the device, where that is fast."""
    n = int(gibibytes * 2**30) // (4 * N_FEATURES)
    X = np.empty((n, N_FEATURES), np.float32)
    for start in range(0, n, 2**18):
        rows = X[start : start + 2**18]
        rows[:] = torch.randn(*rows.shape, device="cuda").cpu().numpy()
    return X


def main() -> None:
    """Measure and write ``results/stream-gpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=40)
    parser.add_argument("--budget", default="8GiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", default=str(RESULTS / "stream-gpu.json"))
    options = parser.parse_args()
    X = host_rows(options.gib)
    whitener = Whitener().fit(X[:100_000])

    def fit(kernels: str | None, n: int) -> None:
        with config_context(gpu_kernels=kernels):
            KMeans(
                N_CLUSTERS,
                init=X[:N_CLUSTERS],
                max_iter=n,
                tol=0,
                compute_labels=False,
                empty="keep",
            ).fit(X)

    runs: dict[str, Callable[[], Any]] = {
        f"{name} {n}": lambda kernels=kernels, n=n: fit(kernels, n)
        for name, kernels in (("plain", None), ("fused", "auto"))
        for n in (SHORT, LONG)
    }
    runs["whiten"] = lambda: whitener.transform(X)
    times: dict[str, list[float]] = {}
    budget = config_context(device="cuda", memory=options.budget, lazy=False)
    # A look at every number on the host would take longer than the passes.
    with budget, sklearn.config_context(assume_finite=True):
        runs = that_work(runs)
        torch.cuda.reset_peak_memory_stats()
        for _ in range(options.repeats):
            for name, run in runs.items():
                begun = time.perf_counter()
                run()
                times.setdefault(name, []).append(time.perf_counter() - begun)
    peak = torch.cuda.max_memory_allocated()
    seconds = {name: median(values) for name, values in times.items()}
    rates = {}
    for name in ("plain", "fused"):
        if {f"{name} {SHORT}", f"{name} {LONG}"} <= seconds.keys():
            passes = (seconds[f"{name} {LONG}"] - seconds[f"{name} {SHORT}"]) / (LONG - SHORT)
            rates[name] = 1e-9 * X.nbytes / passes
    if "whiten" in seconds:
        rates["whiten"] = 1e-9 * X.nbytes / seconds["whiten"]
    result = report() | {"shape": X.shape, "budget": options.budget, "copies_gb_s": copy_rate()}
    result |= {"seconds": seconds, "gb_s": rates, "peak_device_bytes": peak}
    print(json.dumps(result), flush=True)
    with open(options.output, "w") as file:
        file.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
