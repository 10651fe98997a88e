"""Kill fits at random moments, resume them, and compare the models with those of runs that were left alone.

``python tests/io/killed_runs.py N_KILLS SEED FOLDER [LEARNER ...]`` prints one line of JSON for each learner.
Fits run in children of a process without threads: forked, they start at once.
"""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import clusterica
from clusterica.cluster import (
    CosineKMeans,
    GainShapeKMeans,
    KMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)
from clusterica.dictionaries import (
    KSVD,
    DiscriminativeKSVD,
    KernelSparseCoding,
    LabelConsistentKSVD,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)
from clusterica.ica import ClusterICA, KernelICA, KurtosisPursuit
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.networks import Committee, FeatureNetwork, ImageClassifier, Layer
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

RNG = np.random.default_rng(0)
X = RNG.laplace(size=(1500, 6)) @ RNG.standard_normal((6, 6))
Y = (X[:, 0] + RNG.standard_normal(1500) > 0).astype(int) + (X[:, 1] > 1)
WIDE = RNG.standard_normal((90, 120)) + np.arange(90)[:, None] % 3
IMAGES = RNG.integers(0, 256, (60, 10, 10)).astype(np.uint8)
FEW = slice(0, 300)


def fit(make, X=X, y=None):
    return lambda: make().fit(X) if y is None else make().fit(X, y)


def little_memory(run):
    """Leave no room for the products of all rows, so that classifiers read the rows in every step."""

    def fitted():
        with clusterica.config_context(memory="4MiB"):
            return run()

    return fitted


LEARNERS = {
    "KMeans": fit(lambda: KMeans(20, n_init=3, tol=0, random_state=0)),
    "KMeans, batches": fit(
        lambda: KMeans(20, batch_size=100, max_iter=15, n_init=2, random_state=0)
    ),
    "KMeans, sparse start": fit(
        lambda: KMeans(40, init="rows", empty="data", tol=0, random_state=0)
    ),
    "SphericalKMeans": fit(lambda: SphericalKMeans(15, tol=0, random_state=0)),
    "GainShapeKMeans": fit(lambda: GainShapeKMeans(15, max_iter=30, tol=0, random_state=0)),
    "CosineKMeans": fit(lambda: CosineKMeans(tol=0, random_state=0), Whitener().fit_transform(X)),
    "CosineKMeans, batches": fit(
        lambda: CosineKMeans(batch_size=200, max_iter=20, random_state=0),
        Whitener().fit_transform(X).astype(np.float32),
    ),
    "ClusterICA": fit(lambda: ClusterICA(random_state=0)),
    "KurtosisPursuit": fit(lambda: KurtosisPursuit(3, random_state=0)),
    "KernelICA": fit(lambda: KernelICA(2, n_landmarks=30, random_state=0), X[FEW]),
    "RICA": fit(lambda: RICA(8, random_state=0, tol=1e-5)),
    "DiscriminativeRICA": fit(lambda: DiscriminativeRICA(6, random_state=0, tol=1e-3), y=Y),
    "KernelRICA": fit(lambda: KernelRICA(6, random_state=0, tol=1e-4), X[FEW]),
    "DiscriminativeKernelRICA": fit(
        lambda: DiscriminativeKernelRICA(6, random_state=0, max_iter=20), X[FEW], Y[FEW]
    ),
    "KernelSparseCoding": fit(
        lambda: KernelSparseCoding(5, sparsity=0.5, tol=1e-3, random_state=0), X[FEW]
    ),
    "VonMisesFisherMixture": fit(lambda: VonMisesFisherMixture(4, tol=1e-9, random_state=0)),
    "SparseCoding": fit(lambda: SparseCoding(8, max_iter=20, random_state=0), X[FEW]),
    "SparseCoding, batches": fit(
        lambda: SparseCoding(8, batch_size=50, max_iter=10, random_state=0), X[FEW]
    ),
    "KSVD": fit(lambda: KSVD(8, max_iter=20, random_state=0), X[FEW]),
    "DiscriminativeKSVD": fit(
        lambda: DiscriminativeKSVD(8, max_iter=15, random_state=0), X[FEW], Y[FEW]
    ),
    "LabelConsistentKSVD": fit(
        lambda: LabelConsistentKSVD(3, max_iter=15, random_state=0), X[FEW], Y[FEW]
    ),
    "SparseAutoencoder": fit(lambda: SparseAutoencoder(5, max_iter=40, random_state=0)),
    "SparseRBM": fit(lambda: SparseRBM(5, max_iter=10, random_state=0)),
    "LinearSVC, tall": fit(lambda: LinearSVC(C="auto", random_state=0), y=Y),
    "LinearSVC, L-BFGS": little_memory(fit(lambda: LinearSVC(C="auto", random_state=0), y=Y)),
    "LinearSVC, wide": fit(lambda: LinearSVC(C="auto", random_state=0), WIDE, np.arange(90) % 3),
    "RidgeClassifier": fit(lambda: RidgeClassifier(random_state=0), WIDE, np.arange(90) % 3),
    "ImageFeatures": fit(
        lambda: ImageFeatures(8, patch_size=4, n_patches=500, random_state=0), IMAGES
    ),
    "FeatureNetwork": fit(
        lambda: FeatureNetwork(
            [Layer(6, patch_size=3, pool_size=2, n_patches=400), Layer(4, patch_size=2)],
            random_state=0,
        ),
        IMAGES,
    ),
    "Committee": fit(
        lambda: Committee(
            [ImageClassifier([FeatureNetwork([Layer(6, patch_size=3, n_patches=400)])])] * 2,
            random_state=0,
        ),
        IMAGES,
        np.arange(60) % 3,
    ),
    "ImageClassifier": fit(
        lambda: ImageClassifier(
            [FeatureNetwork([Layer(6, patch_size=3, n_patches=400)])], random_state=0
        ),
        IMAGES,
        np.arange(60) % 3,
    ),
}


def child(learner, model_file, folder=None):
    """Start a process that fits a model and saves it; return its id."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        warnings.simplefilter("ignore")
        if folder is None:
            model = learner()
        else:
            with clusterica.checkpoints(folder, every=0):
                model = learner()
        clusterica.save(model, model_file)
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def ended(pid, seconds):
    """Wait for a process at most so long; return whether it has ended by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1] == 0


def resumed_after_kills(name, n_kills, rng, folder):
    """Return how many kills there were, and whether the models are the same, bit for bit."""
    learner, found = LEARNERS[name], {"learner": name, "kills": 0, "same": True}
    folder.mkdir()
    # Once in this process: children then start with compiled functions. No threads, which fork would lose.
    with clusterica.config_context(threads=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner()
    os.waitpid(child(learner, folder / "expected"), 0)
    start = time.monotonic()
    os.waitpid(child(learner, folder / "unharmed", folder / "run-0"), 0)
    seconds = time.monotonic() - start
    expected = (folder / "expected").read_bytes()
    found["same"] = (folder / "unharmed").read_bytes() == expected
    n_runs = 1
    while found["kills"] < n_kills and n_runs < 5 * n_kills:
        # One run is killed up to three times on its way.
        run, model = folder / f"run-{n_runs}", folder / f"model-{n_runs}"
        for _ in range(int(rng.integers(1, 4))):
            if ended(child(learner, model, run), rng.uniform(0, 1.2 * seconds)):
                break
            found["kills"] += 1
        os.waitpid(child(learner, model, run), 0)
        found["same"] &= model.exists() and model.read_bytes() == expected
        n_runs += 1
    return found


if __name__ == "__main__":
    n_kills, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rng = np.random.default_rng(seed)
    for i, name in enumerate(sys.argv[4:] or LEARNERS):
        print(json.dumps(resumed_after_kills(name, n_kills, rng, folder / str(i))), flush=True)
