"""An iteration of K-means on a CUDA device: ours in all rules and precisions, flash-kmeans, FlashLib, cuML.

All contenders start from the same centres and take turns; times are events after a warm-up. An iteration is
the difference of fits of two lengths, so that what a fit does once does not count. Beside them stand the bare
product in each precision and the rate of copies. One step of ours is compared with float64, and repeated for
its bits.

``--sweep`` times the assignment kernel in many tilings instead, and prints the best ones for each shape.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

import torch

from benchmarks.gpu import copy_rate, in_turns, product_ceilings, report, that_work
from benchmarks.kmeans import RESULTS
from clusterica import config_context
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.ops.assign import lloyd_sums_reference
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, GAIN_SHAPE, Rule

SHAPES = [
    (400_000, 108, 1600),
    (400_000, 108, 4000),
    (1_000_000, 108, 16_000),
    (1_000_000, 192, 1600),
    (5_000_000, 50, 100),
    (500_000, 256, 256),
]
RULES = {
    EUCLIDEAN: KMeans,
    GAIN_SHAPE: GainShapeKMeans,
    DIRECTION: SphericalKMeans,
    AXIS: CosineKMeans,
}
BY_NAME = {rule.name: rule for rule in RULES}
PRECISIONS = ("tf32", "float16", "float32")
# Iterations of the two fits, and rows of the comparison with float64. Steps of ours are recorded in the third
# iteration, so that both fits have it.
SHORT, LONG, CHECKED = 4, 9, 20_000


def free_centers(C: torch.Tensor, rule: Rule) -> torch.Tensor:
    """Return the centres that a rule starts from: half of them as axes, which have two signs."""
    C = C[: len(C) // 2] if rule is AXIS else C
    return C / C.norm(dim=1, keepdim=True) if rule.unit_centers else C


def our_fits(X: torch.Tensor, C: torch.Tensor) -> dict[Any, Callable[[int], Any]]:
    """Return our fits by rule and precision; "plain" is without kernels."""

    def fit(rule: Rule, precision: str, n: int) -> None:
        plain = precision == "plain"
        settings = {"gpu_kernels": None} if plain else {"precision": precision}
        centers = free_centers(C, rule)
        with config_context(**settings):
            RULES[rule](
                len(centers), init=centers, max_iter=n, tol=0, compute_labels=False, empty="keep"
            ).fit(X)

    return {
        ("clusterica", rule.name, precision): lambda n, r=rule, p=precision: fit(r, p, n)
        for rule in RULES
        for precision in ("plain", *PRECISIONS)
    }


def peer_fits(X: torch.Tensor, C: torch.Tensor) -> dict[Any, Callable[[int], Any]]:
    """Return the fits of the other libraries that can be imported, Euclidean and by cosines."""
    k, fits = len(C), {}
    unit = free_centers(C, DIRECTION)
    half, half_centers, half_unit = X.half(), C.half(), unit.half()
    peer = _imported("flash_kmeans")
    if peer is not None:
        for precision, rows, centers, on_sphere in (
            ("tf32", X, C, unit),  # what it multiplies float32 in
            ("float16", half, half_centers, half_unit),
        ):
            fits["flash-kmeans", "euclidean", precision] = lambda n, x=rows, c=centers: (
                peer.batch_kmeans_Euclid(x[None], k, max_iters=n, tol=-1.0, init_centroids=c[None])
            )
            fits["flash-kmeans", "direction", precision] = lambda n, x=rows, c=on_sphere: (
                peer.batch_kmeans_Cosine(x[None], k, max_iters=n, tol=-1.0, init_centroids=c[None])
            )
    flashlib = _imported("flashlib")
    if flashlib is not None:
        for precision, rows, centers in (("tf32", X, C), ("float16", half, half_centers)):
            fits["flashlib", "euclidean", precision] = lambda n, x=rows, c=centers: (
                flashlib.flash_kmeans(x, k, max_iters=n, tol=-1.0, init_centroids=c[None])
            )
    cuml = _imported("cuml")
    if cuml is not None:
        fits["cuml", "euclidean", "float32"] = lambda n: cuml.KMeans(
            k, init=C.cpu().numpy(), n_init=1, max_iter=n, tol=1e-12
        ).fit(X)
    return fits


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except Exception as error:  # a peer may fail in any way, and the others are still measured
        print(f"{name}: {type(error).__name__}: {error}")
        return None


def agreement(X: torch.Tensor, C: torch.Tensor, rule: Rule, precision: str) -> dict[str, Any]:
    """Compare one step on some rows with float64: labels, sums, and the bits of a second run."""
    from clusterica.ops.gpu.assign import best_labels, center_sums

    X, C = X[:CHECKED], free_centers(C, rule)
    ones = torch.ones(len(X), device=X.device)
    labels = best_labels(X, C, None, rule=rule, precision=precision)
    total, again = (center_sums(X, C, None, ones, rule=rule, precision=precision) for _ in range(2))
    exact_labels, exact = lloyd_sums_reference(
        X.double(), C.double(), None, ones.double(), rule=rule
    )
    return {
        "labels_differing": float((labels != exact_labels).float().mean()),
        "gain_error": abs(float(total.gain / exact.gain) - 1),
        "same_bits": all(torch.equal(a, b) for a, b in zip(total, again, strict=True)),
    }


def data(shape: tuple[int, int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Gaussian rows, and some of them as centres."""
    n, d, k = shape
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, d, device="cuda", generator=generator)
    return X, X[torch.randperm(n, device="cuda", generator=generator)[:k]].clone()


def measure(shape: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Time all contenders on one shape."""
    X, C = data(shape)
    fits = our_fits(X, C) | peer_fits(X, C)
    checks: dict[Any, dict[str, Any]] = {}

    def tried(name: Any) -> None:
        fits[name](1)
        contender, rule, precision = name
        if contender == "clusterica" and precision != "plain":
            checks[name] = agreement(X, C, BY_NAME[rule], precision)

    work = that_work({name: lambda name=name: tried(name) for name in fits})
    runs = {(name, n): lambda f=fits[name], n=n: f(n) for name in work for n in (SHORT, LONG)}
    times = in_turns(runs, repeats)
    steps = []
    for name in dict.fromkeys(name for name, _ in times):
        contender, rule, precision = name
        row: dict[str, Any] = {"contender": contender, "rule": rule, "precision": precision}
        turns = zip(times[name, LONG], times[name, SHORT], strict=True)
        each = [(long - short) / (LONG - SHORT) for long, short in turns]
        row |= {"ms": median(each), "spread_ms": max(each) - min(each)}
        steps.append(row | checks.get(name, {}))
    ceilings = product_ceilings(X, C, repeats)
    return {"shape": shape, "product_ms": ceilings, "steps": steps}


def sweep(shape: tuple[int, int, int], repeats: int, n_best: int = 3) -> list[dict[str, Any]]:
    """Time the assignment kernel in all tilings; return the best and the default one of every precision."""
    from benchmarks.kernel_resources import TILINGS
    from clusterica.ops.gpu.assign import launch_nearest, round_centers
    from clusterica.ops.gpu.tiling import tiling_for

    X, C = data(shape)
    n, d, k = shape
    labels = torch.empty(n, dtype=torch.int32, device="cuda")
    index, found = torch.empty_like(labels), []
    n_open = torch.zeros(1, dtype=torch.int32, device="cuda")
    for precision in ("tf32", "float16", "screened", "float32"):
        timed = []
        default = tiling_for(X.device, precision, d)
        for tiling in dict.fromkeys((default, *TILINGS)):
            try:
                centers = round_centers(C, EUCLIDEAN, precision, tiling)

                def run(tiling=tiling, precision=precision, centers=centers) -> None:
                    n_open.zero_()
                    launch_nearest(
                        X, centers, None, labels, index, n_open, EUCLIDEAN, precision, tiling
                    )

                ms = median(in_turns({0: run}, repeats)[0])
            except Exception as error:  # such as too much shared memory
                print(precision, tuple(tiling), str(error).partition("\n")[0][:100])
                continue
            row = {"tiling": tuple(tiling), "ms": ms, "tflops": 2e-9 * n * d * k / ms}
            timed.append(row | {"default": tiling == default})
        timed.sort(key=lambda row: row["ms"])
        for row in timed[:n_best] + [row for row in timed[n_best:] if row["default"]]:
            found.append({"shape": shape, "precision": precision} | row)
            print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure and write ``results/kmeans-gpu.json``, or with ``--sweep`` the best tilings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--shapes", type=int, nargs="+", default=list(range(len(SHAPES))))
    parser.add_argument("--seconds", type=float, default=280, help="start no shape after so many")
    parser.add_argument("--output", default=None)
    options = parser.parse_args()
    name = "kmeans-gpu-tilings.json" if options.sweep else "kmeans-gpu.json"
    begun, rows = time.perf_counter(), []
    result: dict[str, Any] = report() | {"repeats": options.repeats, "copies_gb_s": copy_rate()}
    for i in options.shapes:
        if time.perf_counter() - begun > options.seconds:
            print(f"no time left for {SHAPES[i]}")
            break
        try:
            found = (sweep if options.sweep else measure)(SHAPES[i], options.repeats)
        except Exception:  # the shapes before it are in the file
            traceback.print_exc()
            continue
        rows += found if isinstance(found, list) else [found]
        torch.cuda.empty_cache()
        if not options.sweep:
            for step in rows[-1]["steps"]:
                print(SHAPES[i], json.dumps(step), flush=True)
            print(SHAPES[i], "products", json.dumps(rows[-1]["product_ms"]), flush=True)
        # After every shape: a run that is stopped leaves what it has.
        with open(options.output or RESULTS / name, "w") as file:
            file.write(json.dumps(result | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
