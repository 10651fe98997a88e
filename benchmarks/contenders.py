"""One contender in a process of its own: it makes the data, then fits or multiplies on demand.

Each process has its own BLAS and its own environment, holds its own copy of the same data, and sleeps
while the others run. It is spoken to in lines of JSON on its standard input and output.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

Run = Callable[[int], dict[str, Any] | None]  # takes the number of iterations, may tell how it went
RunOf = Callable[[np.ndarray, np.ndarray, str], Run]  # takes the data, and which kind of run


def clusterica_fit(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return a fit of one rule of ours, from the given centres."""
    from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans

    k = len(C)
    make = {
        "euclidean": lambda n: KMeans(k, init=C, max_iter=n, tol=0),
        "no labels": lambda n: KMeans(k, init=C, max_iter=n, tol=0, compute_labels=False),
        "gain-shape": lambda n: GainShapeKMeans(k, init=C, max_iter=n, tol=0),
        "direction": lambda n: SphericalKMeans(k, init=C, max_iter=n, tol=0),
        "cosine": lambda n: CosineKMeans(k // 2, init=C[: k // 2], max_iter=n, tol=0),
    }[kind]
    return lambda n: _check_iterations(make(n).fit(X).n_iter_, n)


def sklearn_fit(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return a fit of scikit-learn's KMeans."""
    from sklearn.cluster import KMeans

    def run(n: int) -> None:
        model = KMeans(len(C), init=C, n_init=1, max_iter=n, tol=0, algorithm="lloyd", copy_x=False)
        _check_iterations(model.fit(X).n_iter_, n)

    return run


def sklearnex_fit(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return a fit of scikit-learn-intelex' KMeans, by oneDAL."""
    from sklearnex.cluster import KMeans

    def run(n: int) -> None:
        model = KMeans(len(C), init=C, n_init=1, max_iter=n, tol=0, algorithm="lloyd", copy_x=False)
        _check_iterations(model.fit(X).n_iter_, n)

    return run


def fastkmeans_fit(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return a training of fastkmeans by torch on the CPU; it draws its own start."""
    import torch
    from fastkmeans import FastKMeans

    torch.set_num_threads(2)
    k, d = C.shape

    def run(n: int) -> None:
        # A negative tolerance never ends the loop early.
        FastKMeans(d, k, niter=n, tol=-1, gpu=False, max_points_per_centroid=None).train(X)

    return run


def faiss_fit(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return a training of faiss.Kmeans on all rows."""
    import faiss

    faiss.omp_set_num_threads(2)

    def run(n: int) -> None:
        k, d = C.shape
        model = faiss.Kmeans(
            d, k, niter=n, max_points_per_centroid=len(X), min_points_per_centroid=1, seed=0
        )
        model.train(X, init_centroids=C)

    return run


def gemm(X: np.ndarray, C: np.ndarray, kind: str) -> Run:
    """Return bare products of all rows with all centres, as one way of cutting them up.

    ``kind`` is ``"all|half MiB CX|XC threads|blas"``: products with all centres or half of them, in blocks
    of that many MiB of scores, one way round or the other, on two threads with one BLAS thread each or
    on BLAS's own two threads.
    """
    share, size, orientation, who = kind.split()
    C = C[: len(C) // 2] if share == "half" else C
    k = len(C)
    b = int(np.clip(float(size) * 2**20 // (X.itemsize * k), 32, len(X)))
    own_threads = who == "blas"

    def part(start: int, stop: int) -> None:
        S = np.empty(k * b, X.dtype)
        for i in range(start, stop, b):
            block = X[i : min(i + b, stop)]
            if orientation == "CX":
                np.matmul(C, block.T, out=S[: k * len(block)].reshape(k, len(block)))
            else:
                np.matmul(block, C.T, out=S[: k * len(block)].reshape(len(block), k))

    def run(n: int) -> None:
        with threadpoolctl.threadpool_limits(2 if own_threads else 1, user_api="blas"):
            for _ in range(n):
                if own_threads:
                    part(0, len(X))
                else:
                    half = len(X) // 2
                    with ThreadPoolExecutor(2) as pool:
                        list(pool.map(part, (0, half), (half, len(X))))

    return run


def clusterica_ica(X: np.ndarray, A: np.ndarray, kind: str) -> Run:
    """Return a fit of Cluster-ICA, ``kind`` being "ml" (refined) or "clusters"."""
    from clusterica.ica import ClusterICA

    def run(n: int) -> dict[str, Any]:
        ica = ClusterICA(refine="ml" if kind == "ml" else None, random_state=n).fit(X)
        return _recovery(ica.components_, A) | {"iterations": ica.n_iter_}

    return run


def sklearn_ica(X: np.ndarray, A: np.ndarray, kind: str) -> Run:
    """Return a fit of scikit-learn's FastICA: parallel, logcosh."""
    from sklearn.decomposition import FastICA

    def run(n: int) -> dict[str, Any]:
        ica = FastICA(whiten="unit-variance", random_state=n).fit(X)
        return _recovery(ica.components_, A) | {"iterations": ica.n_iter_}

    return run


def picard_ica(X: np.ndarray, A: np.ndarray, kind: str) -> Run:
    """Return a fit of picard-o: uncorrelated sources, tanh, heavy and light tails (extended)."""
    from picard import picard

    def run(n: int) -> dict[str, Any]:
        K, W, _, iterations = picard(
            X.T, ortho=True, extended=True, random_state=n, return_n_iter=True
        )
        return _recovery(W @ K, A) | {"iterations": iterations}

    return run


def _recovery(components: np.ndarray, A: np.ndarray) -> dict[str, Any]:
    from clusterica.metrics import amari_distance

    return {"distance": amari_distance(components, A)}


FITS: dict[str, RunOf] = {
    "clusterica": clusterica_fit,
    "sklearn": sklearn_fit,
    "sklearnex": sklearnex_fit,
    "fastkmeans": fastkmeans_fit,
    "faiss": faiss_fit,
    "gemm": gemm,
    "clusterica ica": clusterica_ica,
    "sklearn ica": sklearn_ica,
    "picard ica": picard_ica,
}


def _check_iterations(done: int, asked: int) -> None:
    if done != asked:
        raise RuntimeError(f"the fit ended after {done} of {asked} iterations; use other data")


def _memory(field: str) -> int:
    """Return VmRSS (resident now) or VmHWM (the most since the last reset), in bytes; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def _resident_after_reset() -> int:
    """Give freed memory back to the system, reset the peak, and return what is resident."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _rows_and_centers(request: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and some of them as centres."""
    n, d, k = request["shape"]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return X, X[rng.choice(n, k, replace=False)].copy()


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "Laplace": lambda rng, n: rng.laplace(size=n),
    "Student t5": lambda rng, n: rng.standard_t(5, size=n),
    "Bernoulli-Gaussian": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.1),
    "cubed Laplace": lambda rng, n: rng.laplace(size=n) ** 3,
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "sine": lambda rng, n: np.sin(2 * np.pi * rng.random(n)),
    "binary": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "triangular": lambda rng, n: rng.triangular(-1, 0, 1, n),
}
KINDS = {"sparse": list(LAWS)[:4], "light": list(LAWS)[4:]}
KINDS["mixed"] = [law for pair in zip(KINDS["sparse"], KINDS["light"], strict=True) for law in pair]


def _mixtures(request: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of sources whose laws take turns, mixed by a Gaussian matrix, and the matrix."""
    n, d = request["shape"]
    rng, laws = np.random.default_rng(request["seed"]), KINDS[request["sources"]]
    S = np.column_stack([LAWS[laws[j % len(laws)]](rng, n) for j in range(d)])
    A = rng.normal(size=(d, d))
    return (S / S.std(axis=0)) @ A.T, A


def serve(run_of: RunOf, make_data: Callable[[dict[str, Any]], tuple]) -> None:
    """Answer requests: make the data of a shape, warm up, time n iterations.

    Where a run tells its own seconds, as one that does more than what is timed, they count.
    """
    X = C = np.empty((0, 0), np.float32)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if request["do"] == "data":
            X, C = np.empty((0, 0), np.float32), np.empty((0, 0), np.float32)
            X, C = make_data(request)
            answer: dict[str, Any] = {}
        else:
            run = run_of(X, C, request["kind"])
            before = _resident_after_reset()
            started, cpu = time.perf_counter(), time.process_time()
            told = run(request["iterations"])
            answer = {
                "seconds": time.perf_counter() - started,
                "cpu_seconds": time.process_time() - cpu,  # of all threads
                "extra_bytes": _memory("VmHWM") - before,
            } | (told or {})
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(FITS[sys.argv[1]], _mixtures if sys.argv[1].endswith(" ica") else _rows_and_centers)
