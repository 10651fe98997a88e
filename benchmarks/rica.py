"""RICA and kernel RICA against the bare product, the row-by-row fixed point, and scikit-learn's learners.

Three parts, each with its contenders in turns and medians: one evaluation of RICA's objective and gradient,
counted as 10 m n K operations, beside the bare product of the same sizes; one batched evaluation of kernel
RICA beside one sweep of the paper's fixed point, vectorised over the rows with its kernel values kept; and
the time until a fit does as well as FastICA and MiniBatchDictionaryLearning on the same image patches.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA, MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

from benchmarks.machine import describe, stored
from clusterica.arrays import as_rows, one_blas_thread
from clusterica.contrasts import make_penalty
from clusterica.datasets import photo_patches
from clusterica.encoders import SparseEncoder
from clusterica.kernels import Gaussian
from clusterica.ops.kernel_rica import Model, sweep
from clusterica.ops.linalg import unit_rows
from clusterica.preprocessing import ContrastNormalizer, Whitener
from clusterica.rica import RICA
from clusterica.rica._kernel_descent import KernelProblem
from clusterica.rica._reconstruction import Reconstruction

RESULTS = Path(__file__).parent / "results"
RICA_SHAPE = (400_000, 108, 1600)
KERNEL_SHAPE = (20_000, 108, 400)
QUICK = (20_000, 108, 200)
PENALTIES = {"log cosh": ("logcosh", None), "l1": ("l1", None), "2-D pools": ("logcosh", "2d")}
STEPS = (5, 10, 20, 40, 80, 160)
_EVALUATIONS = 5  # of kernel RICA that are timed together
ALPHA = 0.5  # of the sparse codes that dictionaries are compared by

Job = Callable[[], Any]


class _Plain(Gaussian):
    """Without the shift to the origin, which a sweep would pay for at every basis vector."""

    __call__ = Gaussian.near_origin


class Device:
    """Where arrays are put, and how to wait until work there is done."""

    def __init__(self, name: str | None) -> None:
        self.name = name

    def put(self, X: np.ndarray) -> Any:
        """Return the array there."""
        if self.name is None:
            return X
        import torch

        return torch.asarray(X, device=self.name)

    def describe(self) -> str:
        """Return the name of the GPU, or "cpu"."""
        if self.name is None:
            return "cpu"
        import torch

        return str(torch.cuda.get_device_name(self.name))

    def wait(self) -> None:
        """Return when all work is done."""
        if self.name is not None:
            import torch

            torch.cuda.synchronize()


def take_turns(
    jobs: dict[str, Job], repeats: int, device: Device, *, once_over: float = math.inf
) -> dict[str, list[float]]:
    """Return the seconds of every job: one run of each to warm up, then all in turns.

    A job that takes longer than `once_over` to warm up is not run again: that time is all it has.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    slow = set()
    for turn in range(-1, repeats):
        for name in [name for name in jobs if name not in slow]:
            device.wait()
            start = time.perf_counter()
            jobs[name]()
            device.wait()
            elapsed = time.perf_counter() - start
            if turn < 0 and elapsed > once_over:
                slow.add(name)
            if turn >= 0 or name in slow:
                seconds[name].append(elapsed)
    return seconds


def rica_rate(shape: tuple[int, int, int], device: Device, repeats: int) -> dict[str, Any]:
    """Time one evaluation for every penalty, and the bare product of the rows with the basis."""
    m, n, K = shape
    rng = np.random.default_rng(0)
    X = device.put(rng.standard_normal((m, n), dtype=np.float32))
    W = unit_rows(rng.normal(size=(K, n)))
    basis, block = (
        device.put(np.ascontiguousarray(W.T, np.float32)),
        2**13 if device.name is None else 2**17,
    )
    out = np.empty((block, K), np.float32)

    def product() -> None:
        for i in range(0, m, block):
            part = X[i : i + block]
            part @ basis if device.name else np.matmul(part, basis, out=out[: len(part)])

    def evaluate(penalty: str, pooling: str | None) -> Job:
        g = make_penalty(penalty, pooling, n_codes=K)
        rows = as_rows(X)
        mean, C, null = map(rows.place.put, (np.zeros(n), np.eye(n), np.empty((0, n))))
        problem = Reconstruction(rows, mean, C, g, 0.1, True, null)
        placed = rows.place.put(W)

        def run() -> None:
            with one_blas_thread():
                problem.evaluate(placed)

        return run

    jobs = {name: evaluate(*kind) for name, kind in PENALTIES.items()}
    seconds = take_turns({"bare product": product, **jobs}, repeats, device)
    bare = 2e-9 * m * n * K / median(seconds["bare product"])
    return {
        "shape": shape,
        "bare_gflops": bare,
        "rows": [
            {
                "penalty": name,
                "seconds": median(seconds[name]),
                "gflops": 1e-8 * m * n * K / median(seconds[name]),
                "share_of_bare": 1e-8 * m * n * K / median(seconds[name]) / bare,
                "all_seconds": seconds[name],
            }
            for name in PENALTIES
        ],
    }


def kernel_rate(shape: tuple[int, int, int], device: Device, repeats: int) -> dict[str, Any]:
    """Time one batched evaluation of kernel RICA and one sweep of the paper's fixed point."""
    m, n, K = shape
    rng = np.random.default_rng(0)
    X = device.put(unit_rows(rng.standard_normal((m, n), dtype=np.float32)))
    W = unit_rows(rng.normal(size=(K, n)))
    model = Model(Gaussian(1.0), make_penalty("logcosh", "2d", n_codes=K), 0.01)
    problem = KernelProblem(as_rows(X), model)
    wide = problem.rows.place.put(W)

    def batched() -> None:
        with one_blas_thread():  # one for all steps, as in a fit
            for _ in range(_EVALUATIONS):
                problem.evaluate(wide)

    placed = device.put(W.astype(np.float32))
    plain = model._replace(kernel=_Plain(1.0))
    jobs = {"batched": batched, "row by row": lambda: sweep(X, placed, model=plain)}
    seconds = take_turns(jobs, repeats, device)
    seconds["batched"] = [t / _EVALUATIONS for t in seconds["batched"]]
    return {
        "shape": shape,
        "batched_seconds": median(seconds["batched"]),
        "sweep_seconds": median(seconds["row by row"]),
        "speed_up": median(seconds["row by row"]) / median(seconds["batched"]),
        "all_seconds": seconds,
    }


def peers(n_patches: int, repeats: int) -> dict[str, Any]:
    """Time fits until they do as well as scikit-learn's learners on white patches of photographs."""
    normalizer = ContrastNormalizer(eps=10.0)
    X = normalizer.fit_transform(photo_patches(n_patches, 10, random_state=0)).astype(np.float32)
    fresh = normalizer.fit_transform(photo_patches(2000, 10, random_state=1)).astype(np.float32)
    whitener = Whitener("pca", eps=0.0, n_components=80).fit(X)
    X, fresh = whitener.transform(X), whitener.transform(fresh)
    return {
        "n_patches": n_patches,
        "n_features": X.shape[1],
        "FastICA": _against_fastica(X, fresh, repeats),
        "MiniBatchDictionaryLearning": _against_dictionary(X, fresh, repeats),
    }


def _against_fastica(X: np.ndarray, fresh: np.ndarray, repeats: int) -> dict[str, Any]:
    """Sparsity: mean log cosh of codes of unit variance; RICA's basis must also reconstruct to 1 %."""

    def sparsity(W: np.ndarray) -> float:
        S = fresh @ W.T
        return float(np.log(np.cosh(S / S.std(axis=0))).mean())

    def fastica() -> tuple[float, float]:
        model = FastICA(whiten=False, fun="logcosh", tol=1e-3, max_iter=200, random_state=0).fit(X)
        return sparsity(model.components_), 0.0

    def rica(steps: int) -> tuple[float, float]:
        model = RICA(sparsity=1.0, max_iter=steps, random_state=0).fit(X)
        return sparsity(model.components_), model.reconstruction_error_ / X.shape[1]

    return _race(
        "FastICA", fastica, rica, lambda a, b: a[0] <= 1.002 * b[0] and a[1] <= 0.01, repeats
    )


def _against_dictionary(X: np.ndarray, fresh: np.ndarray, repeats: int) -> dict[str, Any]:
    """Mean of ``0.5 |x - Dᵀ s|² + α |s|₁`` over other patches, with D of unit rows."""
    K = 2 * X.shape[1]

    def cost(D: np.ndarray) -> tuple[float, float]:
        D = unit_rows(D.astype(np.float32))
        S = SparseEncoder(D, alpha=ALPHA, split_signs=False).fit_transform(fresh)
        error = float(0.5 * ((fresh - S @ D) ** 2).sum(axis=1).mean())
        return error + ALPHA * float(np.abs(S).sum(axis=1).mean()), error

    def dictionary() -> tuple[float, float]:
        model = MiniBatchDictionaryLearning(
            K, alpha=ALPHA, batch_size=256, max_iter=5, fit_algorithm="cd", random_state=0
        )
        return cost(model.fit(X).components_)

    def rica(steps: int) -> tuple[float, float]:
        return cost(RICA(K, sparsity=1.0, max_iter=steps, random_state=0).fit(X).components_)

    name = "MiniBatchDictionaryLearning"
    return _race(name, dictionary, rica, lambda a, b: a[0] <= 1.01 * b[0], repeats)


def _race(
    peer: str,
    fit: Callable[[], tuple[float, float]],
    rica: Callable[[int], tuple[float, float]],
    as_good: Callable[[tuple, tuple], bool],
    repeats: int,
) -> dict[str, Any]:
    """Return the times of the peer and of RICA with the fewest steps that do as well, in turns."""
    mark = fit()
    tried = {steps: rica(steps) for steps in STEPS}
    enough = next((steps for steps, found in tried.items() if as_good(found, mark)), STEPS[-1])
    seconds = take_turns({peer: fit, "RICA": lambda: rica(enough)}, repeats, Device(None))
    return {
        "mark": mark,
        "tried": tried,
        "steps": enough,
        "reached": as_good(tried[enough], mark),
        "seconds": median(seconds[peer]),
        "rica_seconds": median(seconds["RICA"]),
        "all_seconds": seconds,
    }


def main() -> None:
    """Measure and write ``results/rica-cpu.json``, or that of a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", help="a torch device, such as cuda")
    parser.add_argument("--parts", nargs="*", default=["rica", "kernel", "peers"])
    parser.add_argument("--quick", action="store_true", help="small shapes, for a try")
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    device = Device(options.device)
    kind = "quick" if options.quick else "gpu" if options.device else "cpu"
    target = Path(options.output or RESULTS / f"rica-{kind}.json")
    report = stored(target)
    report |= {"machine": describe(), "device": device.describe(), "repeats": options.repeats}
    for part in options.parts:
        if part == "peers" and options.device:
            continue
        report[part] = {
            "rica": lambda: rica_rate(
                QUICK if options.quick else RICA_SHAPE, device, options.repeats
            ),
            "kernel": lambda: kernel_rate(
                QUICK if options.quick else KERNEL_SHAPE, device, options.repeats
            ),
            "peers": lambda: peers(5000 if options.quick else 50_000, options.repeats),
        }[part]()
        print(part, json.dumps(report[part], indent=1), flush=True)
        target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
