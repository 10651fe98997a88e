"""RICA and kernel RICA against the bare product, the row-by-row fixed point, and scikit-learn's learners.

Three parts, each with its contenders in turns and medians: one evaluation of RICA's objective and gradient,
counted as 10 m n K operations, beside the bare product of the same sizes; one batched step of kernel RICA beside
one sweep of the paper's fixed point, vectorised over the rows with its kernel values kept; and, on the CPU, the
time until a fit does as well as FastICA and MiniBatchDictionaryLearning on the same image patches.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA, MiniBatchDictionaryLearning

from benchmarks.machine import describe
from clusterica.arrays import as_rows, config_context, worker_pool
from clusterica.datasets import load_photos
from clusterica.encoders import SparseEncoder
from clusterica.ica import RICA, Gaussian
from clusterica.ica._base_rica import BaseRICA
from clusterica.ica._kernel_descent import KernelProblem
from clusterica.ops.kernel_rica import Model, sweep
from clusterica.ops.linalg import unit_rows
from clusterica.ops.penalty import make_penalty

RESULTS = Path(__file__).parent / "results"
RICA_SHAPE = (400_000, 108, 1600)
KERNEL_SHAPE = (20_000, 108, 400)
PENALTIES = {"log cosh": ("logcosh", None), "l1": ("l1", None), "2-D pools": ("l1", "2d")}


def take_turns(jobs: dict[str, Callable[[], Any]], repeats: int, sync: Callable) -> dict[str, list]:
    """Return the seconds of every job, one run of each to warm up, then all in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(-1, repeats):
        for name, job in jobs.items():
            sync()
            start = time.perf_counter()
            job()
            sync()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def rica_rate(shape: tuple[int, int, int], place: Callable, sync: Callable, repeats: int) -> dict:
    """Time one evaluation for every penalty, and the bare product of the rows with the basis."""
    m, n, K = shape
    rng = np.random.default_rng(0)
    X = place(rng.standard_normal((m, n), dtype=np.float32))
    W = unit_rows(rng.normal(size=(K, n)))
    rows, basis = as_rows(X), place(W.astype(np.float32).T.copy())
    block = 8192 if rows.on_host else 2**17
    jobs: dict[str, Callable[[], Any]] = {
        "bare product": lambda: [X[i : i + block] @ basis for i in range(0, m, block)]
    }
    for name, (penalty, pooling) in PENALTIES.items():
        problem = BaseRICA._problem_of(
            rows, np.zeros(n), np.eye(n), make_penalty(penalty, pooling, n_codes=K)
        )
        jobs[name] = lambda problem=problem: problem.evaluate(W)
    seconds = take_turns(jobs, repeats, sync)
    ceiling = 2e-9 * m * n * K / median(seconds["bare product"])
    return {
        "shape": shape,
        "bare_gflops": ceiling,
        "rows": [
            {
                "penalty": name,
                "seconds": median(seconds[name]),
                "gflops": (rate := 1e-8 * m * n * K / median(seconds[name])),
                "share_of_bare": rate / ceiling,
                "all_seconds": seconds[name],
            }
            for name in PENALTIES
        ],
    }
