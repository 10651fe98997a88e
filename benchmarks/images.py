"""Features of images against the bare product of the same BLAS, plain NumPy and parts of scikit-learn.

Two threads, 6 x 6 patches of 32 x 32 colour images, 2 x 2 cells. The encoding counts as
``2 x patches x patch dimension x filters`` operations. All contenders of a comparison are loaded at once
and take turns; medians and ratios of medians are reported. ``--data``, or the environment variable
CLUSTERICA_DATA, names a folder with CIFAR-10; without it images are random, and the run over all of CIFAR-10
is left out.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.image_contenders import (
    DIMENSION,
    FILTERS,
    ITERATIONS,
    PATCHES_PER_IMAGE,
    PLACES,
    STRENGTH,
    TRAINING,
)
from benchmarks.kmeans import GEMMS
from benchmarks.machine import describe, stored
from benchmarks.process import Contender

RESULTS = Path(__file__).parent / "results"
MODULE = "benchmarks.image_contenders"
ENCODED, CLASSIFIED, WHOLE, WARM = 1000, 2000, 60_000, 60
NUMPY_BLOCKS = ("1", "8")  # images at a time; the best counts
STAGES = ("learn", "encode", "classifier")
# Fewer turns with more filters: there the classifier of scikit-learn takes minutes.
FILTERS_TO_CLASSIFY = {400: 5, 1600: 1}


class Job(NamedTuple):
    """What a contender is asked to do."""

    name: str
    kind: str
    number: int = 1  # of products, or of images to score the first time


def _take_turns(
    jobs: list[Job], data: dict[str, dict], repeats: int, *, warm: dict[str, dict]
) -> dict[Job, list[dict]]:
    """Return the answers to all jobs, which take turns, after one turn of those in ``warm`` on less data."""
    contenders = {
        name: Contender(name, {}, "benchmarks.contenders" if name == "gemm" else MODULE)
        for name in data
    }
    answers: dict[Job, list[dict]] = {job: [] for job in jobs}
    try:
        for turn in range(-1, repeats):
            if turn <= 0:
                now = warm if turn < 0 else data
                for name, settings in now.items():
                    contenders[name].ask(do="data", **settings)
            for job in [job for job in jobs if job.name in now]:
                number = job.number if turn == 0 or job.name == "gemm" else 0
                answer = contenders[job.name].ask(do="run", kind=job.kind, iterations=number)
                if turn >= 0:
                    answers[job].append(answer)
    finally:
        for contender in contenders.values():
            contender.close()
    return answers


def encode(data: str | None, repeats: int, n_images: int = ENCODED) -> dict[str, Any]:
    """Time ImageFeatures.transform, the bare products, and the same in plain NumPy."""
    jobs = [Job("clusterica", "encode")]
    jobs += [Job("numpy", block) for block in NUMPY_BLOCKS]
    jobs += [Job("gemm", f"all {way}") for way in GEMMS]

    def settings(n: int) -> dict[str, dict]:
        images = {"n_images": n, "data": data}
        rows = {"shape": (PLACES * n, DIMENSION, FILTERS)}
        return {"clusterica": images, "numpy": images, "gemm": rows}

    answers = _take_turns(jobs, settings(n_images), repeats, warm=settings(WARM))
    firsts = [a["first"] for given in answers.values() for a in given if "first" in a]
    if max(firsts) - min(firsts) > 1e-4 * max(firsts):
        raise RuntimeError(f"the contenders disagree about the first image: {sorted(set(firsts))}")
    best: dict[str, dict[str, Any]] = {}
    for (name, kind, _), given in answers.items():
        seconds = [a["seconds"] for a in given]
        if name not in best or median(seconds) < best[name]["seconds"]:
            best[name] = {
                "contender": name,
                "kind": kind,
                "seconds": median(seconds),
                "gflops": 2e-9 * PLACES * n_images * DIMENSION * FILTERS / median(seconds),
                "extra_mib": max(a["extra_bytes"] for a in given) / 2**20,
                "all_seconds": sorted(seconds),
            }
    ours = best["clusterica"]["seconds"]
    return {
        "n_images": n_images,
        "n_filters": FILTERS,
        "repeats": repeats,
        "share_of_gemm": best["gemm"]["seconds"] / ours,
        "speed_up_on_numpy": best["numpy"]["seconds"] / ours,
        "rows": list(best.values()),
    }


def classify(data: str | None, k: int, repeats: int, n_images: int = CLASSIFIED) -> dict[str, Any]:
    """Time learning, encoding and the classifier on images, against parts of scikit-learn."""
    n_scored = n_images // 2
    jobs = [Job("clusterica", f"{kind} {k}", n_scored) for kind in ("same", "default")]
    jobs += [Job("scikit-learn", str(k), n_scored)]

    images, few = ({"n_images": n + n // 2, "data": data} for n in (n_images, WARM))
    both = {"clusterica": images, "scikit-learn": images}
    # What compiles on its first call is warmed up; for scikit-learn that would only take time.
    answers = _take_turns(jobs, both, repeats, warm={"clusterica": few})
    rows = [
        {
            "contender": name,
            "kind": kind.split()[0] if name == "clusterica" else "same",
            "seconds": median(a["seconds"] for a in given),
            "cpu_seconds": median(a["cpu_seconds"] for a in given),
            **{stage: median(a[stage] for a in given) for stage in STAGES},
            "accuracy": given[0]["accuracy"],
            "all_seconds": sorted(a["seconds"] for a in given),
        }
        for (name, kind, _), given in answers.items()
    ]
    theirs = rows[-1]["seconds"]
    return {
        "n_images": n_images,
        "n_filters": k,
        "n_patches": PATCHES_PER_IMAGE * n_images,
        "iterations": ITERATIONS,
        "C": STRENGTH,
        "repeats": repeats,
        "speed_up": {row["kind"]: theirs / row["seconds"] for row in rows[:-1]},
        "rows": rows,
    }


def everything(data: str) -> dict[str, Any]:
    """Learn, encode and classify all of CIFAR-10, once."""
    job = Job("clusterica", "everything")
    (answer,) = _take_turns([job], {"clusterica": {"n_images": WHOLE, "data": data}}, 1, warm={})[
        job
    ]
    return {
        "n_images": WHOLE,
        "n_training": TRAINING,
        "n_filters": FILTERS,
        **{key: value for key, value in answer.items() if not key.endswith("_bytes")},
        "feature_mib": answer["feature_bytes"] / 2**20,
        "extra_mib": (answer["extra_bytes"] - answer["feature_bytes"]) / 2**20,
    }


def main() -> None:
    """Measure and write ``results/images-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--data", help="folder with CIFAR-10", default=os.environ.get("CLUSTERICA_DATA")
    )
    parser.add_argument(
        "--parts", nargs="*", help="encode, classify-400, classify-1600, everything"
    )
    parser.add_argument("--quick", action="store_true", help="few images, once, for a try")
    options = parser.parse_args()
    few, repeats = ({"n_images": 60}, 1) if options.quick else ({}, options.repeats)
    parts = {"encode": partial(encode, options.data, repeats, **few)}
    for k, most in FILTERS_TO_CLASSIFY.items():
        parts[f"classify-{k}"] = partial(classify, options.data, k, min(repeats, most), **few)
    if options.data and not options.quick:
        parts["everything"] = partial(everything, options.data)
    target = RESULTS / ("images-quick.json" if options.quick else "images-cpu.json")
    known = stored(target).get("parts", {})
    for name in options.parts or parts:
        found = {"data": "images of CIFAR-10" if options.data else "random images", **parts[name]()}
        print(name, json.dumps(found, indent=1), flush=True)
        known[name] = found
        RESULTS.mkdir(exist_ok=True)
        report = {
            "machine": describe(),
            "threads": 2,
            "parts": dict(sorted(known.items(), key=_place)),
        }
        target.write_text(json.dumps(report, indent=1) + "\n")


def _place(item: tuple[str, Any]) -> int:
    """Return where a part comes in the report."""
    return [name in item[0] for name in ("encode", "-400", "-1600", "everything")].index(True)


if __name__ == "__main__":
    main()
