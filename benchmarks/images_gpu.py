"""Image features on a CUDA device, from images to accuracy: plain operations and fused kernels, in turns.

Times of learning, encoding and the classifier, from CUDA tensors and from NumPy arrays under
``config_context(device="cuda")``. ``--data`` names a folder with CIFAR-10, for accuracies; without it images
are random. The encoding is also set beside its bare product in every precision.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from benchmarks.gpu import copy_rate, in_turns, product_ceilings, report, that_work
from benchmarks.image_contenders import DIMENSION, FILTERS, PLACES, TRAINING, _images
from benchmarks.kmeans import RESULTS
from clusterica import config_context
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

PRECISIONS = ("plain", "float32", "tf32", "float16")
ROUNDS = 3


def settings_of(precision: str) -> dict[str, Any]:
    """Return the configuration of a contender; "plain" is without kernels."""
    return {"gpu_kernels": None} if precision == "plain" else {"precision": precision}


def whole_run(
    images: Any, labels: Any, n_training: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Learn, encode and classify; return the seconds of each and the accuracy on the other images."""
    times = [time.perf_counter()]

    def mark() -> None:
        torch.cuda.synchronize()
        times.append(time.perf_counter())

    with config_context(**settings):
        model = ImageFeatures(FILTERS, random_state=0).fit(images[:n_training])
        mark()
        features = model.transform(images)
        mark()
        classifier = LinearSVC(C="auto", random_state=0)
        classifier.fit(features[:n_training], labels[:n_training])
        mark()
        accuracy = classifier.score(features[n_training:], labels[n_training:])
    learn, encode, classify = (b - a for a, b in pairwise(times))
    return {
        "learn": learn,
        "encode": encode,
        "classifier": classify,
        "all": times[-1] - times[0],
        "passes": classifier.n_passes_,
        "accuracy": accuracy,
    }


def encodings(images: torch.Tensor, n_images: int, repeats: int) -> dict[str, Any]:
    """Time `transform` of some images in every precision, in turns, and the bare product."""
    model = ImageFeatures(FILTERS, random_state=0).fit(images[:2000])
    part = images[:n_images]

    def run(precision: str) -> torch.Tensor:
        with config_context(**settings_of(precision)):
            return model.transform(part)

    exact = run("plain")
    runs = that_work({p: lambda p=p: run(p) for p in PRECISIONS})
    off = {p: float((run(p) - exact).norm() / exact.norm()) for p in runs}
    same = {p: bool(torch.equal(run(p), run(p))) for p in runs}
    times = in_turns(runs, repeats)
    rows = torch.randn(PLACES * 2000, DIMENSION, device="cuda")
    product = product_ceilings(rows, torch.randn(FILTERS, DIMENSION, device="cuda"), repeats)
    return {
        "n_images": n_images,
        "ms": {p: median(values) for p, values in times.items()},
        "error": off,
        "same_bits": same,
        "product_ms": {p: ms * n_images / 2000 for p, ms in product.items()},
    }


def main() -> None:
    """Measure and write ``results/images-gpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=None)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240, help="start no round after so many")
    parser.add_argument("--output", default=str(RESULTS / "images-gpu.json"))
    options = parser.parse_args()
    begun = time.perf_counter()
    images, labels = _images({"n_images": options.images, "data": options.data})
    n_training = min(TRAINING, 5 * len(images) // 6)
    on_device = torch.asarray(images, device="cuda")
    targets = torch.asarray(labels, device="cuda")
    result: dict[str, Any] = report() | {"copies_gb_s": copy_rate(), "data": bool(options.data)}
    result["encodings"] = encodings(on_device, min(10_000, len(images)), options.repeats)
    print(json.dumps(result["encodings"]), flush=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for turn in range(ROUNDS + 1):
        for precision in PRECISIONS:
            settings = settings_of(precision)
            for source, X, y, more in (
                ("tensors", on_device, targets, {}),
                ("NumPy", images, labels, {"device": "cuda"}),
            ):
                if time.perf_counter() - begun > options.seconds:
                    continue
                name = f"{precision} {source}"
                try:
                    found = whole_run(X, y, n_training, settings | more)
                except Exception as error:  # the others are still measured
                    print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                    continue
                # The first turn compiles; its time is kept apart.
                kept = f"first {name}" if turn == 0 else name
                runs.setdefault(kept, []).append(found)
                print(kept, json.dumps(found), flush=True)
        with open(options.output, "w") as file:
            file.write(json.dumps(result | {"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
