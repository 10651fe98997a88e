"""How good ``clusterica.estimate`` is, and what a chunk of a Dask array costs.

Fits of 200,000 x 108 rows beside their estimates, and passes over a Dask array of few rows in few and in many
chunks, whose difference is what a chunk costs.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import clusterica
from benchmarks.machine import Others, describe
from benchmarks.rica import Device, take_turns
from clusterica.cluster import KMeans, SphericalKMeans
from clusterica.ica import ClusterICA
from clusterica.planning._machine import measure
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

RESULTS = Path(__file__).parent / "results"
SHAPE, QUICK = (200_000, 108), (20_000, 108)
FITS = {
    "Whitener()": Whitener(),
    "SphericalKMeans(1600)": SphericalKMeans(1600, max_iter=3, tol=0, random_state=0),
    "RICA(108)": RICA(108, max_iter=3, random_state=0),
    "ClusterICA()": ClusterICA(random_state=0),
}
CHUNKS = 200, 1000
ITERATIONS = 2, 7


def estimates(shape: tuple[int, int], repeats: int) -> list[dict[str, Any]]:
    """Return the estimated and the measured seconds of each fit, in turns."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(shape[1], shape[1])).astype(np.float32)
    X = rng.laplace(size=shape).astype(np.float32) @ A
    fitted: dict[str, Any] = {}

    def fit(name: str) -> None:
        fitted[name] = clone(FITS[name]).fit(X)

    seconds = take_turns(
        {name: lambda name=name: fit(name) for name in FITS}, repeats, Device(None)
    )
    found = []
    for name, times in seconds.items():
        n_iter = getattr(fitted[name], "n_iter_", None)
        plan = clusterica.estimate(FITS[name], shape, n_iter=n_iter)
        row = {"model": name, "n_iter": n_iter, "estimated": plan.seconds}
        found.append(row | {"measured": median(times), "all_seconds": times})
    return found


def seconds_per_chunk(repeats: int) -> dict[str, Any]:
    """Return what one more chunk costs in a pass of a fit to a Dask array on two processes."""
    import dask.array as da
    from distributed import Client, LocalCluster

    X = np.random.default_rng(0).normal(size=(10_000, 4))
    passes: dict[int, list[float]] = {n: [] for n in CHUNKS}
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        for turn in range(-1, repeats):  # the first turn warms up
            for n in CHUNKS:
                parts, taken = da.from_array(X, chunks=(len(X) // n, 4)), []
                for n_iter in ITERATIONS:
                    model = KMeans(4, init=X[:4], max_iter=n_iter, tol=0, compute_labels=False)
                    start = time.perf_counter()
                    model.fit(parts)
                    taken.append(time.perf_counter() - start)
                if turn >= 0:
                    passes[n].append((taken[1] - taken[0]) / (ITERATIONS[1] - ITERATIONS[0]))
    few, many = (median(passes[n]) for n in CHUNKS)
    return {
        "seconds": (many - few) / (CHUNKS[1] - CHUNKS[0]),
        "chunks": CHUNKS,
        "seconds_a_pass": [few, many],
        "all_seconds_a_pass": list(passes.values()),
    }


def main() -> None:
    """Measure and write ``results/planning-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer rows, for a try")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    report: dict[str, Any] = {"machine": describe(), "threads": 2, "repeats": options.repeats}
    others, shape = Others(), QUICK if options.quick else SHAPE
    with clusterica.config_context(threads=2):
        rates = measure("cpu", "float32")
        report |= {"products": rates.products, "bandwidth": rates.bandwidth, "shape": shape}
        report["estimates"] = estimates(shape, options.repeats)
    report["chunk"] = seconds_per_chunk(options.repeats)
    report["share_of_others"] = others.share()
    print(json.dumps(report, indent=1))
    target = RESULTS / ("planning-quick.json" if options.quick else "planning-cpu.json")
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
