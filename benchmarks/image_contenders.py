"""One contender for image features in a process of its own: ours, plain NumPy, parts of scikit-learn.

All of them cut 6 x 6 patches at every place, normalise their contrast, whiten them, encode them and pool
the codes over 2 x 2 cells. To encode, the filters are random patches; to classify, they are learned by
`ITERATIONS` of K-means from random patches as a start.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.contenders import Run, RunOf, serve

Encode = Callable[[np.ndarray], np.ndarray]
Learn, MakeHead = Callable[[np.ndarray], Encode], Callable[[int], Any]

SIDE, PATCH, CHANNELS = 32, 6, 3
PLACES = (SIDE - PATCH + 1) ** 2
DIMENSION = PATCH * PATCH * CHANNELS
FILTERS = 1600
ITERATIONS = 10
PATCHES_PER_IMAGE = 50
STRENGTH = 10.0  # C of both kinds of LinearSVC times the number of images
CONTRAST, WHITENING, ALPHA = 10.0, 0.1, 0.25
TRAINING = 50_000  # images of CIFAR-10 that the whole run learns from


def ours(images: np.ndarray, labels: np.ndarray, kind: str) -> Run:
    """Return a run of ours: "encode", "everything", or "same 400" or "default 400" to classify.

    The numbers are those of the filters. "same" is the pipeline put together from parts of scikit-learn,
    "default" is what a user gets without asking: another learner, another encoder, C from a path.
    """
    if kind == "encode":
        features = _fitted(images)
        return lambda _: {"first": float(features.transform(images)[0].sum())}
    if kind == "everything":
        return lambda _: _everything(images, labels)
    return lambda n_scored: _timed(images, labels, n_scored, *_our_parts(*kind.split()))


def plain(images: np.ndarray, labels: np.ndarray, kind: str) -> Run:
    """Return the same features by NumPy calls, ``kind`` images at a time."""
    model, block = _fitted(images), int(kind)
    T, mean, D = model.whitener_.whitening_, model.whitener_.mean_, model.filters_

    def features(pixels: np.ndarray) -> np.ndarray:
        windows = sliding_window_view(pixels, (PATCH, PATCH), axis=(1, 2))
        X = np.moveaxis(windows, 3, 5).reshape(-1, DIMENSION).astype(np.float32)
        X = _normalized(X)
        S = (X - mean) @ T.T @ D.T
        codes = np.concat([np.maximum(S - ALPHA, 0), np.maximum(-S - ALPHA, 0)], axis=1)
        return _pooled(codes.reshape(len(pixels), *windows.shape[1:3], -1))

    def run(_: int) -> dict[str, Any]:
        blocks = [features(images[i : i + block]) for i in range(0, len(images), block)]
        return {"first": float(np.concat(blocks)[0].sum())}

    return run


def sklearn_parts(images: np.ndarray, labels: np.ndarray, kind: str) -> Run:
    """Return extract_patches_2d, KMeans.transform, StandardScaler and LinearSVC, put together.

    ``kind`` is the number of filters. LinearSVC would choose its dual solver where there are fewer images
    than features; here that is slower than the primal one, which it is told to take.
    """
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.image import extract_patches_2d
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    size, k, side = (PATCH, PATCH), int(kind), SIDE - PATCH + 1

    def learn(X: np.ndarray) -> Encode:
        some = [
            extract_patches_2d(image, size, max_patches=PATCHES_PER_IMAGE, random_state=i)
            for i, image in enumerate(X)
        ]
        P = _normalized(np.concat(some).reshape(-1, DIMENSION).astype(np.float32))
        mean = P.mean(axis=0)
        values, V = np.linalg.eigh(np.cov(P - mean, rowvar=False))
        T = ((V / np.sqrt(values + WHITENING)) @ V.T).astype(np.float32)
        model = KMeans(k, init="random", n_init=1, max_iter=ITERATIONS, tol=0, random_state=0)
        model.fit((P - mean) @ T)

        def feature(image: np.ndarray) -> np.ndarray:
            rows = extract_patches_2d(image, size).reshape(-1, DIMENSION).astype(np.float32)
            Z = model.transform((_normalized(rows) - mean) @ T)
            codes = np.maximum(Z.mean(axis=1, keepdims=True) - Z, 0)
            return _pooled(codes.reshape(1, side, side, k))[0]

        return lambda X: np.stack([feature(image) for image in X])

    def head(n: int) -> Any:
        return make_pipeline(
            StandardScaler(), LinearSVC(C=STRENGTH / n, dual=False, random_state=0)
        )

    return lambda n_scored: _timed(images, labels, n_scored, learn, head)


def _fitted(images: np.ndarray) -> Any:
    """Return features with random patches as filters: how long they take does not depend on them."""
    from clusterica.images import ImageFeatures

    return ImageFeatures(FILTERS, n_patches=10_000, learner="patches", random_state=0).fit(images)


def _normalized(X: np.ndarray) -> np.ndarray:
    X = X - X.mean(axis=1, keepdims=True)
    return X / np.sqrt(X.var(axis=1, keepdims=True) + np.float32(CONTRAST))


def _pooled(codes: np.ndarray) -> np.ndarray:
    """Return sums over 2 x 2 cells, the first of them one place larger where they can't be equal."""
    half = (codes.shape[1] + 1) // 2
    cells = [codes[:, a, b] for a in _halves(half) for b in _halves(half)]
    return np.concat([cell.sum(axis=(1, 2)) for cell in cells], axis=1)


def _halves(half: int) -> tuple[slice, slice]:
    return slice(None, half), slice(half, None)


def _our_parts(kind: str, k: str) -> tuple[Learn, MakeHead]:
    from clusterica.cluster import KMeans
    from clusterica.images import ImageFeatures
    from clusterica.linear import LinearSVC

    model = ImageFeatures(int(k), random_state=0)
    if kind == "same":
        learner = KMeans(int(k), init="rows", max_iter=ITERATIONS, tol=0)
        model.set_params(learner=learner, encoder="triangle")

    def learn(X: np.ndarray) -> Encode:
        return model.set_params(n_patches=PATCHES_PER_IMAGE * len(X)).fit(X).transform

    def head(n: int) -> LinearSVC:
        return LinearSVC(C=STRENGTH / n if kind == "same" else "auto", random_state=0)

    return learn, head


def _timed(
    images: np.ndarray,
    labels: np.ndarray,
    n_scored: int,
    learn: Learn,
    make_head: MakeHead,
) -> dict[str, Any]:
    """Learn, encode and classify the first two thirds of the images; score so many of the others, untimed."""
    n = 2 * len(images) // 3
    times, cpu = [time.perf_counter()], time.process_time()
    encode = learn(images[:n])
    times.append(time.perf_counter())
    features = encode(images[:n])
    times.append(time.perf_counter())
    head = make_head(n).fit(features, labels[:n])
    times.append(time.perf_counter())
    told = _stages(times, cpu)
    if n_scored:
        others = slice(n, n + n_scored)
        told["accuracy"] = float(head.score(encode(images[others]), labels[others]))
    return told


def _stages(times: list[float], cpu: float) -> dict[str, Any]:
    """Return the seconds of all and of every stage, and those of all threads, which end now."""
    stages = dict(zip(("learn", "encode", "head"), np.diff(times).tolist(), strict=True))
    return {
        "seconds": times[-1] - times[0],
        "cpu_seconds": time.process_time() - cpu,
        **stages,
    }


def _everything(images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Learn from the training images, encode all, and fit a head that chooses its C."""
    from clusterica.images import ImageFeatures
    from clusterica.linear import LinearSVC

    times, cpu = [time.perf_counter()], time.process_time()
    model = ImageFeatures(FILTERS, random_state=0).fit(images[:TRAINING])
    times.append(time.perf_counter())
    features = model.transform(images)
    times.append(time.perf_counter())
    head = LinearSVC(C="auto", random_state=0).fit(features[:TRAINING], labels[:TRAINING])
    times.append(time.perf_counter())
    return {
        **_stages(times, cpu),
        "feature_bytes": features.nbytes,
        "C": head.C_,
        "passes": head.n_passes_,
        "converged": head.converged_,
        "accuracy": head.score(features[TRAINING:], labels[TRAINING:]),
    }


def _images(request: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first images of CIFAR-10 and their labels, or random ones where there is no path."""
    n = request["n_images"]
    if request["data"] is None:
        rng = np.random.default_rng(0)
        shape = (n, SIDE, SIDE, CHANNELS)
        return rng.integers(0, 256, shape, dtype=np.uint8), rng.integers(0, 10, n)
    from clusterica.datasets import load_cifar10

    found = load_cifar10(request["data"], split="all" if n > TRAINING else "train")
    assert found.labels is not None
    # A copy, so that what is not asked for does not count as memory.
    return (
        (found.images, found.labels)
        if n > TRAINING
        else (found.images[:n].copy(), found.labels[:n])
    )


RUNS: dict[str, RunOf] = {"clusterica": ours, "numpy": plain, "scikit-learn": sklearn_parts}

if __name__ == "__main__":
    serve(RUNS[sys.argv[1]], _images)
