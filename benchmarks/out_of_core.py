"""Fits to a file that is larger than memory allows: time, bytes read, and peak memory beside the page cache.

``python -m benchmarks.out_of_core [--gigabytes 20] [--limit-gib 2]`` writes a file of random rows, measures
how fast the disk reads it and its rows are multiplied, and then fits a chain of whitening and K-means, and a
classifier. Each fit runs in a process of its own, with a limit of the system on its private memory
(RLIMIT_DATA): what needs more fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Others, describe

RESULTS = Path(__file__).parent / "results"
N_FEATURES, N_CLUSTERS, N_ITERATIONS, BUDGET = 108, 100, 2, "512MiB"
BLOCK = 2**18  # rows that are made, read or multiplied at a time


def write_file(path: Path, n_rows: int) -> None:
    """Write sparse sources, mixed, block by block: one block of draws, in other signs and order each time."""
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(BLOCK, N_FEATURES)).astype(np.float32)
    A = rng.normal(size=(N_FEATURES, N_FEATURES)).astype(np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_FEATURES))
    for start in range(0, n_rows, BLOCK):
        signs = rng.choice(np.float32([-1, 1]), size=N_FEATURES)
        part = X[start : start + BLOCK]
        part[:] = (S * signs)[: len(part)] @ A
    X.flush()


def forget(path: Path) -> None:
    """Drop the file from the page cache, so that it is read from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_rate(path: Path, most: int = 4 * 10**9) -> float:
    """Return the bytes a second at which the file is read from front to back."""
    forget(path)
    began, done = time.perf_counter(), 0
    with path.open("rb", buffering=0) as file:
        while done < most and (part := file.read(2**24)):
            done += len(part)
    return done / (time.perf_counter() - began)


def product_rate(n_columns: int) -> float:
    """Return the bytes of rows a second that are multiplied with as many columns; the best of five."""
    X = np.random.default_rng(0).normal(size=(BLOCK, N_FEATURES)).astype(np.float32)
    W = np.ones((N_FEATURES, n_columns), np.float32)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        X @ W
        seconds.append(time.perf_counter() - began)
    return X.nbytes / min(seconds)


# --- In a process of its own ---------------------------------------------------------------------------


@contextmanager
def watched_memory(peak: list[int]) -> Iterator[None]:
    """Write down the largest anonymous memory of this process: what the page cache holds does not count."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            status = Path("/proc/self/status").read_text()
            peak[0] = max(peak[0], int(status.split("RssAnon:")[1].split()[0]) * 1024)

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    done.set()
    thread.join()


def fit(job: str, path: Path, limit: int) -> dict[str, Any]:
    """Fit to the file within the limit, and return seconds and peak memory."""
    import sklearn.pipeline

    import clusterica
    from clusterica.cluster import KMeans
    from clusterica.linear import RidgeClassifier
    from clusterica.preprocessing import Whitener

    X = np.load(path, mmap_mode="r")
    settings = {"init": "gaussian", "max_iter": N_ITERATIONS, "tol": 0, "compute_labels": False}
    models = {
        "whitening and K-means": sklearn.pipeline.make_pipeline(
            Whitener(), KMeans(N_CLUSTERS, random_state=0, **settings)
        ),
        "classifier": RidgeClassifier(1.0),
    }
    # What is compiled is compiled before.
    y = np.resize(np.arange(10, dtype=np.int8), len(X))
    some = np.array(X[:20_000])
    models[job].fit(some, y[:20_000])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    peak = [0]
    before = _bytes_from_disk()
    with clusterica.config_context(memory=BUDGET), watched_memory(peak):
        began = time.perf_counter()
        models[job].fit(X, y)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak": peak[0], "from_disk": _bytes_from_disk() - before}


def _bytes_from_disk() -> int:
    return int(Path("/proc/self/io").read_text().split("\nread_bytes:")[1].split()[0])


# --- All of it -----------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=20, help="size of the file")
    parser.add_argument("--limit-gib", type=float, default=2, help="memory of a fit")
    parser.add_argument("--folder", type=Path, help="where the file is written; a temporary one")
    parser.add_argument("--only", help="a fit of an existing file, for the process that does it")
    args = parser.parse_args()
    limit = int(args.limit_gib * 2**30)
    if args.only:
        print(json.dumps(fit(args.only, args.folder / "rows.npy", limit)))
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "rows.npy"
        n_rows = int(args.gigabytes * 1e9) // (4 * N_FEATURES)
        write_file(path, n_rows)
        report = {"machine": describe(), "rows": n_rows, "features": N_FEATURES, "limit": limit}
        report |= {"bytes": path.stat().st_size, "memory": BUDGET, "clusters": N_CLUSTERS}
        report["iterations"] = N_ITERATIONS
        report["disk"] = disk_rate(path)
        report["products"] = {n: product_rate(n) for n in (N_CLUSTERS, N_FEATURES)}
        for job in ("whitening and K-means", "classifier"):
            forget(path)
            others = Others()
            command = [sys.executable, "-m", "benchmarks.out_of_core", "--only", job]
            command += ["--folder", folder, "--limit-gib", str(args.limit_gib)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            report[job] = json.loads(done.stdout) | {"others": others.share()}
            print(job, report[job], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "out-of-core.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
