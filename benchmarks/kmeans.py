"""Ten iterations of K-means against other libraries and the bare matrix product of the same BLAS.

The others are scikit-learn, scikit-learn-intelex, faiss and fastkmeans, those of them that are installed.

Two threads, float32, the same data and start for all. All contenders are loaded at once and take turns,
so that a noisy neighbour disturbs them alike; medians and ratios of medians are reported.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import llvmlite.binding

from benchmarks.machine import describe, stored
from benchmarks.process import Contender

RESULTS = Path(__file__).parent / "results"
SHAPES = [
    (400_000, 108, 1600),
    (100_000, 108, 6000),
    (100_000, 256, 256),
    (500_000, 100, 200),
    (5_000_000, 50, 100),
]
ITERATIONS, FEWER = 10, 2
RULES = ("euclidean", "no labels", "gain-shape", "direction", "cosine")
GEMMS = [f"{size} {way} threads" for size in (1, 4, 8) for way in ("CX", "XC")]
GEMMS += [f"64 {way} blas" for way in ("CX", "XC")]
PRODUCTS = 1  # of all rows, for one figure of a bare product
MODULES = {
    "scikit-learn": "sklearn",
    "faiss": "faiss",
    "scikit-learn-intelex": "sklearnex",
    "fastkmeans": "fastkmeans",
}
PEERS: dict[str, tuple[str, dict[str, str]]] = {
    name: (module, {}) for name, module in MODULES.items() if find_spec(module)
}
has_avx512 = "AVX-512" in describe()["cpu"] and "no AVX-512" not in describe()["cpu"]
if "faiss" in PEERS and has_avx512:
    # The wheel of faiss does not find these kernels by itself on every processor that has them.
    PEERS["faiss, SkylakeX"] = ("faiss", {"OPENBLAS_CORETYPE": "SkylakeX"})
# What Numba compiles for decides whether clusterica multiplies bfloat16: without it, all is float32.
FEATURES = llvmlite.binding.get_host_cpu_features().flatten()
NO_BFLOAT16 = {"NUMBA_CPU_FEATURES": FEATURES.replace("+avx512bf16", "-avx512bf16")}
NO_BFLOAT16 |= {"NUMBA_CPU_NAME": llvmlite.binding.get_host_cpu_name()}
OURS = {
    "clusterica": ("clusterica", {}),
    "clusterica without bfloat16": ("clusterica", NO_BFLOAT16),
}
CONTENDERS = {**OURS, "gemm": ("gemm", {}), **PEERS}


def measure(
    shape: tuple[int, int, int], repeats: int, peers: list[str], rules: list[str]
) -> dict[str, Any]:
    """Time all contenders in turns on one shape."""
    lengths = (FEWER, ITERATIONS)
    others = ["clusterica without bfloat16", *peers]
    jobs = [("clusterica", rule, n) for rule in rules for n in lengths]
    jobs += [(name, "euclidean", n) for name in others for n in lengths]
    jobs += [("gemm", f"{share} {way}", PRODUCTS) for share in ("all", "half") for way in GEMMS]
    contenders = {name: Contender(*CONTENDERS[name]) for name in dict.fromkeys(j[0] for j in jobs)}
    answers: dict[tuple, list[dict]] = {job: [] for job in jobs}
    try:
        for contender in contenders.values():
            contender.ask(do="data", shape=shape)
        for turn in range(-1, repeats):  # the first turn warms up: compilation, caches, page faults
            for job in jobs:
                name, kind, n = job
                if turn < 0 and n == ITERATIONS:
                    continue
                answer = contenders[name].ask(do="run", kind=kind, iterations=n)
                if turn >= 0:
                    answers[job].append(answer)
    finally:
        for contender in contenders.values():
            contender.close()
    seconds = {job: [a["seconds"] for a in given] for job, given in answers.items()}
    extra = {job: max(a["extra_bytes"] for a in given) for job, given in answers.items()}
    return _row(shape, seconds, extra)


def _row(shape: tuple, seconds: dict, extra: dict) -> dict[str, Any]:
    n, d, k = shape
    best_gemm, best_half = (
        min(median(seconds["gemm", f"{share} {way}", PRODUCTS]) for way in GEMMS) / PRODUCTS
        for share in ("all", "half")
    )
    seconds = {job: times for job, times in seconds.items() if job[0] != "gemm"}
    row: dict[str, Any] = {
        "shape": shape,
        "gemm_gflops": 2e-9 * n * d * k / best_gemm,
        "half_gemm_gflops": 2e-9 * n * d * (k // 2) / best_half,
        "fits": [],
    }
    whole = {job[:2]: median(s) for job, s in seconds.items() if job[2] == ITERATIONS}
    slope = {
        job[:2]: (whole[job[:2]] - median(s)) / (ITERATIONS - FEWER)
        for job, s in seconds.items()
        if job[2] == FEWER
    }
    for (name, kind), fit in whole.items():
        # To label all rows, ours and scikit-learn's assign them once more at the end.
        passes = ITERATIONS + (0 if name.startswith("faiss") or kind == "no labels" else 1)
        product = best_half if kind == "cosine" else best_gemm
        row["fits"].append(
            {
                "library": name,
                "rule": kind,
                "fit_seconds": fit,
                "iteration_seconds": slope[name, kind],
                "share_of_gemm_fit": product * passes / fit,
                "share_of_gemm_iteration": product / slope[name, kind],
                "extra_mib": extra[name, kind, ITERATIONS] / 2**20,
                "all_fit_seconds": sorted(seconds[name, kind, ITERATIONS]),
            }
        )
    peers = [name for name, _ in whole if name in PEERS]
    for key, ours in (("speed_up", "clusterica"), ("speed_up_without_bfloat16", list(OURS)[1])):
        row[key] = {
            name: {
                "fit": whole[name, "euclidean"] / whole[ours, "euclidean"],
                "iteration": slope[name, "euclidean"] / slope[ours, "euclidean"],
            }
            for name in peers
        }
    return row


def main() -> None:
    """Measure and write ``results/kmeans-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="a fraction of the rows and clusters, for a try"
    )
    parser.add_argument("--shapes", type=int, nargs="*", help="which shapes, from 0")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=list(RULES))
    options = parser.parse_args()
    chosen = SHAPES if options.shapes is None else [SHAPES[i] for i in options.shapes]
    target = RESULTS / ("kmeans-quick.json" if options.quick else "kmeans-cpu.json")
    known = stored(target).get("rows", [])
    for shape in chosen:
        n, d, k = shape
        # An even number of clusters, for CosineKMeans.
        shape = (n // 25, d, k // 80 * 2) if options.quick else shape
        row = measure(shape, options.repeats, options.peers, options.rules)
        known = [r for r in known if tuple(r["shape"]) != tuple(row["shape"])] + [row]
        print(row["shape"], f"{row['gemm_gflops']:.0f} GFLOP/s", row["speed_up"], flush=True)
        for fit in row["fits"]:
            print("   ", {k: round(v, 3) if isinstance(v, float) else v for k, v in fit.items()})
        RESULTS.mkdir(exist_ok=True)
        order = {s: i for i, s in enumerate(SHAPES)}
        known.sort(key=lambda r: order.get(tuple(r["shape"]), 99))
        report = {
            "machine": describe(),
            "threads": 2,
            "iterations": ITERATIONS,
            "repeats": options.repeats,
        }
        target.write_text(json.dumps(report | {"rows": known}, indent=1) + "\n")


if __name__ == "__main__":
    main()
